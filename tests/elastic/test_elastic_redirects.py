"""`redirect`: a standard stream led to a file, at the level of descriptors."""

import pytest

from procession.elastic.redirects import redirect
from support import run_python, write

BODY = """
    import ctypes, os, sys
    from procession.elastic.redirects import redirect, redirect_stderr, redirect_stdout

    libc = ctypes.CDLL("libc.so.6")
    c_stderr = ctypes.c_void_p.in_dll(libc, "stderr")

    def say(what):
        print(what, "by python")
        libc.printf(what.encode() + b" by c\\n")
        os.system(f"echo {what} by command")
        print(what, "to stderr", file=sys.stderr)
        libc.fprintf(c_stderr, what.encode() + b" to stderr by c\\n")
        os.system(f"echo {what} to stderr by command >&2")
"""


def run(tmp_path, body):
    done = run_python(write(tmp_path / "script.py", BODY + body), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done


def said(what, *by):
    return sorted(f"{what} {each}" for each in by)


OUT = ("by python", "by c", "by command")
ERR = ("to stderr", "to stderr by c", "to stderr by command")


def test_stdout_of_python_c_and_children(tmp_path):
    body = """
    say("before")
    with redirect_stdout("out.log"):
        say("in")
    say("after")
    """
    done = run(tmp_path, body)
    assert sorted((tmp_path / "out.log").read_text().splitlines()) == said("in", *OUT)
    assert sorted(done.stdout.splitlines()) == said("after", *OUT) + said("before", *OUT)
    assert sorted(done.stderr.splitlines()) == sorted(
        said("before", *ERR) + said("in", *ERR) + said("after", *ERR)
    )


def test_restored_after_an_exception_and_the_file_is_emptied_first(tmp_path):
    write(tmp_path / "out.log", "old text, longer than what comes\n")
    body = """
    try:
        with redirect("stdout", "out.log"):
            print("in")
            raise ValueError
    except ValueError:
        print("out")
    """
    assert run(tmp_path, body).stdout == "out\n"
    assert (tmp_path / "out.log").read_text() == "in\n"


def test_much_output_is_whole(tmp_path):
    body = """
    with redirect_stdout("out.log"):
        for i in range(100_000):
            print(f"py:{i}")
        sys.stdout.flush()  # or its buffer and the C library's would end within each other's lines
        for i in range(100_000):
            libc.printf(b"c:%d\\n", i)
    """
    run(tmp_path, body)
    lines = (tmp_path / "out.log").read_text().splitlines()
    for who in ("py", "c"):
        numbers = [int(n) for w, _, n in (line.partition(":") for line in lines) if w == who]
        assert numbers == list(range(100_000))


@pytest.mark.parametrize("kind", ["stdfoo", "stdin", ""])
def test_unknown_streams(tmp_path, kind):
    with (
        pytest.raises(ValueError, match=f"unknown standard stream <{kind}>, must be one of"),
        redirect(kind, str(tmp_path / "file")),
    ):
        pass
    assert not (tmp_path / "file").exists()
