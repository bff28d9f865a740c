"""What else the launcher's process does is not disturbed, and does not disturb the group."""

import os
import signal
import subprocess
import threading

import procession
from procession import Phase
from support import OBEDIENT, PYTHON, alive, gone, run_python, write


def test_the_users_waitpid_for_any_child_does_not_disturb_the_group(tmp_path):
    main = write(
        tmp_path / "main.py",
        """
        import os, procession
        for n in range(3):
            pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 7"], os.environ)
            group = procession.start(lambda: 5, nproc=2)
            seen = os.waitpid(pid, 0)
            print(os.waitstatus_to_exitcode(seen[1]), group.wait().values)
        group = procession.start(["sleep", "0.05"], nproc=2)
        procession_forkserver = None
        try:
            while True:
                if os.waitpid(-1, os.WNOHANG) == (0, 0):
                    break
        except ChildProcessError:
            pass
        print(group.wait().state.name)
        import procession.forkserver
        procession.forkserver.close()
        print(procession.run(lambda: 5))
        """,
    )
    done = run_python(main)
    assert done.stdout.splitlines() == ["7 [5, 5]"] * 3 + ["SUCCEEDED", "[5]"], done.stderr
    assert done.stderr == ""


def test_ignored_sigchld_in_the_launcher(tmp_path):
    """Then the kernel reaps the launcher's children; the group is below the agent."""
    main = write(
        tmp_path / "main.py",
        """
        import procession, signal
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        print(procession.run(lambda: 5, nproc=2))
        print(procession.run(["true"], nproc=2, start_method="forkserver"))
        try:
            procession.run(["sh", "-c", "exit 3"], nproc=2)
        except procession.GroupFailed as e:
            print(e.cause.exit)
        print(procession.run(lambda: 6, start_method="fork"))
        """,
    )
    done = run_python(main)
    assert done.stdout.splitlines() == ["[5, 5]", "[None, None]", "exit code 3", "[6]"]
    assert done.stderr == ""


def test_a_fork_of_the_user_does_not_keep_the_ranks_alive(tmp_path):
    """A child of the launcher that lives on holds no socket that the agent waits for."""
    main = write(
        tmp_path / "main.py",
        """
        import os, procession, time
        group = procession.start(["sleep", "1000"], nproc=2)
        if not (child := os.fork()):
            time.sleep(1000)
        print(child, *group.pids().values(), flush=True)
        os._exit(0)
        """,
    )
    process = subprocess.Popen([PYTHON, str(main)], stdout=subprocess.PIPE, text=True)
    with process:
        child, *pids = map(int, process.stdout.readline().split())
        assert process.wait(10) == 0
        gone(pids)
        assert alive(child)
        os.kill(child, signal.SIGKILL)


def test_a_fork_of_the_user_may_launch_by_itself(tmp_path):
    main = write(
        tmp_path / "main.py",
        """
        import os, procession
        print(procession.run(lambda: 1, nproc=2), flush=True)
        with procession.start(["sleep", "100"], nproc=2) as group:
            if not (pid := os.fork()):
                print(procession.run(lambda: 2, nproc=2), flush=True)
                raise SystemExit(4)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), group.state.name, flush=True)
        print(procession.run(lambda: 3, nproc=2))
        """,
    )
    # Python 3.12 and later warn of each fork in a process with threads: the supervisor's.
    done = run_python("-W", "ignore::DeprecationWarning", main)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["[1, 1]", "[2, 2]", "4 RUNNING", "[3, 3]"]


def test_launches_from_a_thread_that_then_ends():
    """The parent-death signal of Linux is about threads: the ranks must outlive this one."""
    groups = []

    def launch():
        groups.append(procession.start(["sleep", "100"], nproc=2, stop=OBEDIENT))

    thread = threading.Thread(target=launch)
    thread.start()
    thread.join()
    with groups[0] as group:
        assert group.state is Phase.RUNNING
        assert all(alive(p) for p in group.pids().values())
