"""The launcher's own standard streams: missing, or replaced by an object."""

import contextlib
import io
import subprocess

import pytest

import procession
from support import METHODS, PYTHON, run_python, shell, write


@pytest.mark.parametrize("closed", ["0", "1,2", "0,1,2"])
@pytest.mark.parametrize("method", METHODS)
def test_launcher_that_was_started_without_some(tmp_path, closed, method):
    """What we open must not land on their numbers, where a rank would write into it."""
    main = write(
        tmp_path / "main.py",
        f"""
        import os, sys
        for fd in ({closed},):
            os.close(fd)
        import procession
        def work():
            os.write(1, b"out\\n")
            os.write(2, b"err\\n")
            return [os.readlink(f"/proc/self/fd/{{n}}") for n in range(3)]
        for logs in (procession.Logs(prefix=""), procession.Logs()):
            places = procession.run(work, nproc=2, logs=logs, start_method={method!r})
            for fd in ({closed},) if logs.prefix == "" else ():
                assert {{p[fd] for p in places}} == {{"/dev/null"}}, places
        for fd in ({closed},):
            try:
                os.fstat(fd)
            except OSError:
                continue
            raise SystemExit(f"descriptor {{fd}} was left open")
        open("done", "w").close()
        """,
    )
    done = run_python(main, cwd=tmp_path)
    assert (tmp_path / "done").exists(), (done.stdout, done.stderr)


@pytest.mark.parametrize("nproc", [1, 2])
def test_replaced_stdout_and_stderr_get_what_ranks_print(nproc):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        procession.run(shell("echo out; echo err >&2"), nproc=nproc)
    prefixes = ["[0] ", "[1] "] if nproc == 2 else [""]
    assert sorted(out.getvalue().splitlines()) == [f"{p}out" for p in prefixes]
    assert sorted(err.getvalue().splitlines()) == [f"{p}err" for p in prefixes]


def test_what_was_printed_before_stands_before(tmp_path):
    main = write(
        tmp_path / "main.py",
        """
        import procession
        print("before", end="\\n", flush=False)
        procession.run(["echo", "rank"], nproc=2)
        print("after")
        """,
    )
    with open(tmp_path / "out", "wb") as out:
        subprocess.run([PYTHON, str(main)], stdout=out, timeout=30, check=True)
    words = (tmp_path / "out").read_text().split()
    assert words[0] == "before"
    assert words[-1] == "after"


@pytest.mark.parametrize("again", [False, True], ids=["once", "always"])
def test_an_error_of_our_own_output_thread_is_none_of_the_ranks(monkeypatch, caplog, again):
    """A pipe that nobody reads any more would kill who writes there."""
    from seams.output import Feed

    real, calls = Feed.take_block, []

    def take(self, *args):
        calls.append(args)
        if len(calls) == 2 or (again and len(calls) > 2):
            raise MemoryError("boom")
        return real(self, *args)

    monkeypatch.setattr(Feed, "take_block", take)
    text = "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.05; done; yes | head -c 200000"
    logs = procession.Logs(prefix="[{rank}] ")
    result = procession.start(shell(text), nproc=2, logs=logs).wait()
    assert [end.exit.code for end in result.ranks] == [0, 0]
    (said,) = [r.getMessage() for r in caplog.records if r.name == "procession"]
    assert "output of the ranks was not shown to its end" in said
    assert "MemoryError: boom" in said
