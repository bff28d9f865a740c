"""Small files of the kernel, and what is no such file."""

from doctor_machines import tree

from seams.system import files


def test_numbers(tmp_path):
    root = tree(tmp_path, {"/proc/n": " 12\n", "/proc/x": "a\n", "/proc/e": ""})
    assert [files.number(f"/proc/{n}", root) for n in "nxe-"] == [12, None, None, None]


def test_fields(tmp_path):
    root = tree(tmp_path, {"/proc/m": "A: 3 kB\n B:4\nC:\n"})
    assert [files.field("/proc/m", n, root) for n in "ABCD"] == [3072, 4, None, None]


def test_what_is_no_file(tmp_path):
    tree(tmp_path, {"/proc/m": "x"})
    assert files.read("/proc", str(tmp_path)) is None
    assert files.read("/proc/\0", str(tmp_path)) is None
    (tmp_path / "proc/m").write_bytes(b" \xff\n")
    assert files.read("/proc/m", str(tmp_path)) == "\N{REPLACEMENT CHARACTER}"
