"""Functions of the main program, and of programs that are no importable module."""

import pytest
from facesupport import tidy  # noqa: F401

from support import run_python, write

FRESH = ("spawn", pytest.param("forkserver", marks=pytest.mark.long))


@pytest.mark.parametrize("method", FRESH)
def test_a_guarded_script_is_imported_again(tmp_path, method):
    """As the original does: what stands there by itself holds in ranks, too."""
    source = f"""
        import random, sys, threading
        import procession.multiprocessing as mp

        random.seed(7)
        lock = threading.Lock()  # cannot be pickled
        setting = __name__

        class Config:
            size = 3

        def work(i, config):
            with lock:
                print(i, setting, random.random(), isinstance(config, Config), sys.argv[1:])

        if __name__ == "__main__":
            setting = "changed later"
            print("x", random.random())
            mp.start_processes(work, (Config(),), nprocs=2, start_method="{method}")
        """
    done = run_python(write(tmp_path / "main.py", source), "--fast", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first, second, own = sorted(done.stdout.splitlines())
    number = own.split()[1]
    assert [first, second] == [f"{i} __mp_main__ {number} True ['--fast']" for i in range(2)]


@pytest.mark.parametrize("how", ["script", "module", "input"])
def test_without_a_guard(tmp_path, how):
    """The original starts the whole script again in each process, which then fails."""
    source = """
        import procession.multiprocessing as mp

        class Config:
            size = 3

        def work(i, config):
            helper(i + isinstance(config, Config) * config.size)

        def helper(n):
            print("says", n)

        print("once")
        mp.spawn(work, (Config(),), nprocs=2)
        """
    script = write(tmp_path / "main.py", source)
    words = {"script": [script], "module": ["-m", "main"], "input": ["-"]}[how]
    done = run_python(*words, cwd=tmp_path, input=script.read_text())
    assert done.stderr == ""
    assert sorted(done.stdout.splitlines()) == ["once", "says 3", "says 4"]


def test_a_start_outside_the_guard_is_refused_in_ranks(tmp_path):
    """Not started again and again, and the reason is told."""
    script = write(
        tmp_path / "main.py",
        """
        import procession.multiprocessing as mp

        def work(i):
            print("rank", i)

        mp.spawn(work, nprocs=2)

        if __name__ == "__main__":
            print("done")
        """,
    )
    done = run_python(script)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "RuntimeError" in done.stderr
    assert "if __name__ == '__main__':" in done.stderr
    assert "ProcessRaisedException" in done.stderr
