"""A process that a hook of the program keeps from coming up is given up, and nothing is left."""

from support import marked, run_python, until, write

HOOK = "import os, threading\nos.register_at_fork(after_in_child=threading.Event().wait)\n"


def test_the_fork_of_a_launcher(tmp_path):
    script = write(
        tmp_path / "main.py",
        f"""
        import sys, procession
        {HOOK.replace(chr(10), chr(10) + " " * 8)}
        if sys.argv[1:]:
            sys.modules["pydevd"] = sys  # as under a debugger
        hang = procession.Hang(start=0.5)
        try:
            procession.run(lambda: None, start_method="fork", hang=hang)
        except procession.StartFailed as e:
            print(e)
        """,
    )
    said = run_python(script, timeout=60).stdout
    assert "did not reach its program in time: if a hook of os.register_at_fork waits" in said
    assert "the agent (pid" in said
    assert '"subProcess": false' in run_python(script, "debugged", timeout=60).stdout
    until(lambda: not marked(), "the end of all")
