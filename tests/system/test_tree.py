"""`system.tree`: the children of a process, each signalled once."""

import subprocess
import sys

import pytest

from support import run_python, write

# Real-time signals are queued: who gets two counts two.
COUNT = """
    import os, signal, sys
    from procession.system import tree

    SIGNAL = signal.SIGRTMIN + 3
    signal.pthread_sigmask(signal.SIG_BLOCK, [SIGNAL])

    def child(group):
        ready, told = os.pipe(), os.pipe()
        pid = os.fork()
        if not pid:
            os.setpgid(0, group)
            os.write(ready[1], b"r")
            signal.sigwaitinfo([SIGNAL])
            count = 1
            while signal.sigtimedwait([SIGNAL], 0.3):
                count += 1
            os._exit(count)
        os.read(ready[0], 1)
        return pid

    alone, leader = child(0), child(0)
    member = child(leader)
    already, groups = set(), set()
    for _ in range(2):
        tree.signal_children(int(SIGNAL), already, groups)
    print([os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in (alone, leader, member)])
"""


def test_every_process_is_signalled_once(tmp_path):
    done = run_python(write(tmp_path / "main.py", COUNT))
    assert done.stdout == "[1, 1, 1]\n", done.stderr


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


def test_children_where_proc_shows_another_namespace(tmp_path):
    script = write(
        tmp_path / "main.py",
        """
        import os, signal
        from procession.system import identity, tree
        print(identity.proc_is_ours(), tree.children())
        pid = os.fork()
        if not pid:
            signal.pause()
        print(tree.children() == [pid], os.getpid())
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        """,
    )
    assert in_namespace(script).stdout == "False []\nTrue 1\n"


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
