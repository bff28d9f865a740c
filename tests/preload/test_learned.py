"""What was learned is given again as long as it is true, and only to who may have it."""

import getpass
import json
import os
import stat
import tempfile

import pytest

from seams.preload import learned

MODULES = ("numpy", "numpy.linalg", "torch", "torch.nn", "torch._dynamo")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "procession" / "learned"


@pytest.fixture
def files(tmp_path):
    """Two packages that are installed somewhere."""
    found = {}
    for name in ("numpy", "torch"):
        file = tmp_path / f"{name}.py"
        file.write_text("version = 1\n")
        found[name] = str(file)
    return found


KEY = learned.program_key("script", "train.py")


def test_what_is_stored_is_given_again(cache, files):
    assert learned.load(KEY, ["torch"]) == ()
    assert not cache.exists()  # looking leaves nothing
    learned.store(KEY, MODULES, files)
    assert learned.load(KEY, ["torch.nn", "numpy"]) == MODULES
    learned.store(KEY, MODULES[:2], files)
    assert learned.load(KEY, ["torch.nn", "numpy"]) == MODULES[:2]
    assert [p.name for p in cache.iterdir()] == [f"{KEY}.json"]


def test_only_of_packages_that_are_preloaded_anyway(cache, files):
    learned.store(KEY, MODULES, files)
    assert learned.load(KEY, ["torch"]) == MODULES[2:]
    assert learned.load(KEY, ["scipy", "json"]) == ()
    assert learned.load(KEY, []) == ()


def test_what_is_foreseen_counts_until_something_is_known(cache, files):
    foreseen = ["torch._dynamo"]
    assert learned.load(KEY, ["torch"], foreseen) == ("torch._dynamo",)
    assert learned.load(KEY, ["torch"], ["jax", "torch.utils.tensorboard"]) == ()
    assert not cache.exists()
    # Of another package, nothing is known of this one.
    learned.store(KEY, MODULES[:2], {"numpy": files["numpy"]})
    assert learned.load(KEY, ["numpy", "torch"], foreseen) == ("torch._dynamo", *MODULES[:2])
    learned.store(KEY, ["torch.nn"], files, known=foreseen)
    assert learned.load(KEY, ["torch"], foreseen) == ("torch._dynamo", "torch.nn")
    os.utime(files["torch"], ns=(1, 1))
    assert learned.load(KEY, ["torch"], foreseen) == ("torch._dynamo",)


@pytest.mark.parametrize("place", [0, 1])
def test_what_is_foreseen_goes_when_the_program_writes_to_what_it_reads(cache, files, place):
    """Also if nothing is left then that could be kept."""
    writes = [("TORCH_LOGS", "1", place)]
    learned.store(KEY, ["torch.nn"], files, writes, known=["torch._dynamo"])
    assert learned.load(KEY, ["torch"], ["torch._dynamo"]) == ()  # torch.nn reads it, too


def test_what_is_foreseen_and_unfit_is_not_foreseen_again(cache, files):
    learned.forget(KEY, files)
    assert learned.load(KEY, ["torch"], ["torch._dynamo"]) == ()
    learned.store(KEY, MODULES, files)
    assert learned.load(KEY, ["torch"], ["torch._dynamo"]) == ()
    os.utime(files["torch"], ns=(1, 1))
    assert learned.load(KEY, ["torch"], ["torch._dynamo"]) == ("torch._dynamo",)


def test_only_what_is_safe(cache, files):
    names = [
        "__main__",
        "json",
        "jax",
        "torch",
        "torch.utils.tensorboard",
        "numpy.",
        "x y",
        "own.x",
    ]
    every = {**files, "jax": files["torch"], "own": files["torch"], "json": files["torch"]}
    learned.store(KEY, names, every)
    assert learned.load(KEY, names) == ("torch",)
    # A file that says more than it may.
    file = cache / f"{KEY}.json"
    said = json.loads(file.read_text())
    said["modules"] += ["torch.utils.tensorboard", "torch.nn", 3, None, "torch.nn"]
    file.write_text(json.dumps(said))
    assert learned.load(KEY, ["torch"]) == ("torch", "torch.nn", "torch.nn")


def test_nothing_after_the_program_wrote_to_its_environment(cache, files):
    learned.store(KEY, MODULES, files, [("X", "1", 3), ("Y", None, 2), ("X", "2", 5)])
    assert learned.load(KEY, MODULES) == MODULES[:2]
    learned.store(KEY, MODULES, files, [("X", None, 0)])
    assert learned.load(KEY, MODULES) == ()


def test_what_was_kept_goes_when_it_reads_what_the_program_writes_now(cache, files):
    writes = [("RANK", "1", 0), ("TMPDIR", None, 0)]
    learned.store(KEY, (), files, writes, known=MODULES)
    assert learned.load(KEY, MODULES) == MODULES[:4]
    learned.store(KEY, (), files, [("MKL_NUM_THREADS", "1", 0)], known=MODULES)
    assert learned.load(KEY, MODULES) == MODULES[:2]
    learned.store(KEY, (), files, [("OMP_NUM_THREADS", "1", 0)], known=MODULES)
    assert learned.load(KEY, MODULES) == ()


@pytest.mark.parametrize("what", learned.FOR_ALL)
def test_nothing_where_the_program_changes_what_any_module_may_see(cache, files, what):
    learned.store(KEY, MODULES, files, [(what, None, 3)])
    assert learned.load(KEY, MODULES) == ()


@pytest.mark.parametrize("what", [*learned.FOR_ALL, "TORCH_LOGS"])
def test_what_is_changed_in_some_runs_counts_for_all(cache, files, what):
    """It begins in the second run; what sees it does not come back in runs without it."""
    learned.store(KEY, MODULES, files)
    assert learned.load(KEY, MODULES) == MODULES
    learned.store(KEY, (), files, [(what, None, 0)], known=MODULES)
    rest = learned.load(KEY, MODULES)
    assert "torch._dynamo" not in rest
    assert rest == (() if what in learned.FOR_ALL else MODULES[:2])
    new = [name for name in MODULES if name not in rest]
    learned.store(KEY, new, files, known=rest)
    assert learned.load(KEY, MODULES) == rest
    learned.store(KEY, new, files, [(what, None, 5)], known=rest)
    assert learned.load(KEY, MODULES) == rest


def test_a_rank_may_have_temporary_files_elsewhere(cache, files):
    """What torch sets when it is imported is in that directory, and no change of the program's."""
    changes = [("TORCHINDUCTOR_CACHE_DIR", f"/ranks/torchinductor_{getpass.getuser()}", 2)]
    learned.store(KEY, MODULES, files, changes, temporary="/ranks")
    assert learned.load(KEY, MODULES) == MODULES
    learned.store(KEY, (), files, changes, known=MODULES, temporary="/others")
    assert learned.load(KEY, MODULES) == MODULES[:2]


def test_what_is_known_is_not_written_again(cache, files):
    changes = [("X", None, 3)]
    learned.store(KEY, MODULES, files, changes)
    before = os.stat(cache / f"{KEY}.json").st_ino
    learned.store(KEY, (), files, changes, known=MODULES[:3])
    assert os.stat(cache / f"{KEY}.json").st_ino == before
    learned.store(KEY, (), files, [*changes, ("Z", None, 0)], known=MODULES[:3])
    assert os.stat(cache / f"{KEY}.json").st_ino != before


def test_a_user_without_a_name(cache, files, monkeypatch):
    def unknown(uid):
        raise KeyError(uid)

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    learned.store(KEY, MODULES, files, [("TORCHINDUCTOR_CACHE_DIR", "/elsewhere", 2)])
    assert learned.load(KEY, MODULES) == MODULES[:2]


def test_variables_that_the_modules_set_themselves_do_not_count(cache, files, monkeypatch):
    monkeypatch.setenv("LOGNAME", "somebody")
    directory = os.path.join(tempfile.gettempdir(), f"torchinductor_{getpass.getuser()}")
    own = [("TORCHINDUCTOR_CACHE_DIR", directory, 2), ("KMP_INIT_AT_FORK", "FALSE", 2)]
    learned.store(KEY, MODULES, files, own)
    assert learned.load(KEY, MODULES) == MODULES
    learned.store(KEY, MODULES, files, [("TORCHINDUCTOR_CACHE_DIR", "/elsewhere", 2)])
    assert learned.load(KEY, MODULES) == MODULES[:2]


@pytest.mark.parametrize("change", ["text", "time", "replace", "remove"])
def test_a_package_that_has_changed_is_left_out(cache, files, change):
    learned.store(KEY, MODULES, files)
    file = files["torch"]
    if change == "text":
        with open(file, "a") as f:
            f.write("more\n")
    elif change == "time":
        os.utime(file, ns=(1, 1))
    elif change == "replace":
        before = os.stat(file)
        os.rename(file, f"{file}.old")
        with open(file, "w") as f:
            f.write("version = 2\n")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        os.unlink(file)
    assert learned.load(KEY, MODULES) == MODULES[:2]


def test_packages_without_a_file_are_not_kept(cache, files):
    learned.store(KEY, MODULES, {"numpy": files["numpy"], "torch": "/nowhere", "scipy": "\0"})
    assert learned.load(KEY, MODULES) == MODULES[:2]


def test_keys(tmp_path, monkeypatch):
    (tmp_path / "link.py").symlink_to(tmp_path / "main.py")
    monkeypatch.chdir(tmp_path)
    key = learned.program_key
    same = {
        key("script", p) for p in ("main.py", "./main.py", "link.py", str(tmp_path / "main.py"))
    }
    assert len(same) == 1
    (tmp_path / "main.py").write_text("changed")
    assert key("script", "main.py") not in same
    (tmp_path / "f.py").touch()
    before = key("function", "m:f", (), str(tmp_path / "f.py"))
    (tmp_path / "f.py").write_text("changed")
    assert key("function", "m:f", (), str(tmp_path / "f.py")) != before
    others = {key("module", "main.py"), key("script", "x.py"), key("script", "main.py", ["-O"])}
    monkeypatch.setattr("sys.executable", "/other/python")
    others.add(key("script", "main.py"))
    monkeypatch.setattr("sys.version", "4.0")
    others.add(key("script", "main.py"))
    assert len(others | same) == 6
    assert all(k.isalnum() for k in others)


def test_nobody_else_can_read_or_write_it(cache, files):
    before = os.umask(0)
    try:
        learned.store(KEY, MODULES, files)
    finally:
        os.umask(before)
    assert stat.S_IMODE((cache / f"{KEY}.json").stat().st_mode) == 0o600
    for directory in (cache, cache.parent, cache.parent.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o720, 0o702])
@pytest.mark.parametrize("which", ["learned", "procession", "file"])
def test_what_others_can_write_is_not_used(cache, files, which, mode):
    learned.store(KEY, MODULES, files)
    paths = {"learned": cache, "procession": cache.parent, "file": cache / f"{KEY}.json"}
    paths[which].chmod(mode)
    assert learned.load(KEY, MODULES) == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("which", ["learned", "procession", "file"])
def test_what_belongs_to_somebody_else_is_not_used(cache, files, which):
    learned.store(KEY, MODULES, files)
    paths = {"learned": cache, "procession": cache.parent, "file": cache / f"{KEY}.json"}
    os.chown(paths[which], 12345, 12345)
    assert learned.load(KEY, MODULES) == ()
    learned.store("other", MODULES, files)
    # A file of somebody else is not read; the directory is ours, and takes others.
    assert (cache / "other.json").exists() == (which == "file")


@pytest.mark.parametrize("which", ["learned", "procession", "file"])
def test_links_are_not_followed(cache, files, which, tmp_path):
    learned.store(KEY, MODULES, files)
    path = {"learned": cache, "procession": cache.parent, "file": cache / f"{KEY}.json"}[which]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert learned.load(KEY, MODULES) == ()
    learned.store(KEY, MODULES[:2], files)
    if which == "file":  # it is replaced, and what it led to is as it was
        assert learned.load(KEY, MODULES) == MODULES[:2]
        assert len(json.loads((tmp_path / "elsewhere").read_text())["modules"]) == len(MODULES)
    else:
        assert learned.load(KEY, MODULES) == ()


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"\xff\xfe", b"null", b"[]", b"3", b"{}", b"[" * 100_000, b"NaN"],
    ids=lambda t: t[:9].decode("latin-1"),
)
def test_garbage_is_ignored(cache, files, text):
    learned.store(KEY, MODULES, files)
    (cache / f"{KEY}.json").write_bytes(text)
    assert learned.load(KEY, MODULES) == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 1}, {"format": None}, {"modules": "torch"}, {"modules": None}, {"packages": []},
        {"packages": {"torch": None}}, {"packages": {"torch": []}}, {"packages": {"torch": [3]}},
        {"packages": {"torch": ["\0"]}}, {"packages": {"torch": "/"}},
        {"packages": {"torch": {"0": "/"}}}, {"packages": {"torch": ["/", 1, 2, 3]}},
        {"modules": [["torch"]]}, {"changed": 5}, {"modules": ["torch"] * 60_000},
    ],
    ids=lambda c: str(c)[:60],
)  # fmt: skip
def test_fields_that_are_garbage_are_ignored(cache, files, changes):
    learned.store(KEY, MODULES, files)
    file = cache / f"{KEY}.json"
    record = json.loads(file.read_bytes())
    file.write_text(json.dumps(record))
    assert learned.load(KEY, MODULES) == MODULES  # nothing was changed yet
    file.write_text(json.dumps({**record, **changes}))
    assert learned.load(KEY, MODULES) == ()


def test_what_is_no_file_is_ignored(cache, files):
    learned.store(KEY, MODULES, files)
    file = cache / f"{KEY}.json"
    file.unlink()
    os.mkfifo(file, 0o600)
    assert learned.load(KEY, MODULES) == ()
    file.unlink()
    file.mkdir()
    assert learned.load(KEY, MODULES) == ()
    learned.store(KEY, MODULES, files)  # cannot take its place
    assert [p.name for p in cache.iterdir()] == [f"{KEY}.json"]


def test_too_much_is_not_kept(cache, files):
    learned.store(KEY, [f"torch.{'x' * 1000}{i}" for i in range(300)], files)
    assert not cache.exists()


def test_the_oldest_are_forgotten(cache, files, monkeypatch):
    monkeypatch.setattr(learned, "MOST_PROGRAMS", 3)
    for i in range(5):
        learned.store(f"key{i}", MODULES, files)
        os.utime(cache / f"key{i}.json", ns=(i, i))
    learned.store("key5", MODULES, files)
    assert sorted(p.name for p in cache.iterdir()) == ["key3.json", "key4.json", "key5.json"]


@pytest.mark.parametrize("variables", [{}, {"HOME": ""}, {"HOME": "x"}, {"XDG_CACHE_HOME": "x"}])
def test_without_a_place_nothing_is_learned(files, monkeypatch, tmp_path, variables):
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    before = os.listdir(tmp_path)
    learned.store(KEY, MODULES, files)
    assert learned.load(KEY, MODULES) == ()
    assert os.listdir(tmp_path) == before


def test_under_home_by_default(files, monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    learned.store(KEY, MODULES, files)
    assert (tmp_path / "home/.cache/procession/learned").is_dir()
    assert learned.load(KEY, MODULES) == MODULES


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null", "/dev/null/x", "/" + "x" * 5000])
def test_a_place_that_cannot_be_written(files, monkeypatch, place):
    monkeypatch.setenv("XDG_CACHE_HOME", place)
    learned.store(KEY, MODULES, files)
    assert learned.load(KEY, MODULES) == ()


def test_a_full_disk_leaves_nothing(cache, files, monkeypatch):
    learned.store(KEY, MODULES, files)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    learned.store(KEY, MODULES[:2], files)
    assert [p.name for p in cache.iterdir()] == [f"{KEY}.json"]
    assert learned.load(KEY, MODULES) == MODULES


def test_what_did_no_good_is_not_learned_again(cache, files):
    learned.forget(KEY)
    assert not cache.exists()
    learned.store(KEY, MODULES, files)
    learned.forget(KEY)
    assert learned.load(KEY, MODULES) == ()
    learned.store(KEY, MODULES, files)
    assert learned.load(KEY, MODULES) == ()
    os.utime(files["torch"], ns=(1, 1))  # another version may be better
    learned.store(KEY, MODULES, files)
    assert learned.load(KEY, MODULES) == MODULES
