"""`system.tree`: the children of a process, each signalled once."""

import subprocess
import sys

import pytest

from support import write


def in_namespace(script):
    """Run a script as the first process of a namespace of pids whose /proc is not its own."""

    done = subprocess.run(
        ["unshare", "-p", "-f", sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    if "unshare failed" in done.stderr or "unshare:" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr}")
    return done


def test_group_where_proc_shows_another_namespace(tmp_path, monkeypatch):
    """What ranks leave is ended; nobody outside is looked at, or signalled, for its number."""
    script = write(
        tmp_path / "main.py",
        """
        import os, signal, time, procession
        def rank():
            procession.beat(step=7)
            if not os.fork():
                os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                open(f"daemon{os.environ['RANK']}", "w").write(str(os.getpid()))
                while True:
                    time.sleep(1)
            while not os.path.exists("daemon0") or not os.path.exists("daemon1"):
                time.sleep(0.01)
        began = time.monotonic()
        procession.run(rank, nproc=2, stop=procession.Stop(grace=0.5))
        left = []
        for rank in range(2):
            try:
                os.kill(int(open(f"daemon{rank}").read()), 0)
                left.append(rank)
            except ProcessLookupError:
                pass
        print("left", left, time.monotonic() - began < 8)
        """,
    )
    monkeypatch.chdir(tmp_path)
    done = in_namespace(script)
    assert done.stdout == "left [] True\n", done.stderr
