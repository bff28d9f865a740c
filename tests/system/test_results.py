import os
import tracemalloc

import pytest
from rankwork import OnlyThere, Refuses

import procession
from procession import Outcome, ProcessionError
from support import METHODS, failure_of, run_python, write


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 1 << 20, 30_000_000])
def test_values_of_any_size(size, method):
    tracemalloc.start()
    assert procession.run(lambda n: b"x" * n, args=(size,), start_method=method) == [b"x" * size]
    assert tracemalloc.get_traced_memory()[0] < 5_000_000  # the value's pickle has gone, too
    tracemalloc.stop()


@pytest.mark.parametrize("method", METHODS)
def test_classes_of_main_come_back_as_themselves(tmp_path, method):
    main = write(
        tmp_path / "main.py",
        f"""
        import dataclasses, enum, procession

        @dataclasses.dataclass
        class Point:
            x: int

        class Colour(enum.Enum):
            RED = 1

        class Broken(Exception):
            pass

        def work():
            return Point(3), Colour.RED

        def fail():
            raise Broken("of main")

        ((point, colour),) = procession.run(work, start_method={method!r})
        print(type(point) is Point, point, colour is Colour.RED)
        try:
            procession.run(fail, start_method={method!r})
        except procession.GroupFailed as e:
            print(type(e.__cause__) is Broken, e.cause.type_name)
        """,
    )
    done = run_python(main)
    assert (done.stderr, done.stdout) == ("", "True Point(x=3) True\nTrue Broken\n")


@pytest.mark.parametrize("method", METHODS)
def test_value_that_does_not_pickle(method):
    failed = failure_of(lambda: Refuses("my own reason"), nproc=2, start_method=method)
    found = failed.exit_code, failed.cause.outcome, failed.cause.type_name
    assert found == (1, Outcome.UNPICKLABLE, "rankwork.Refuses")
    assert "my own reason" in str(failed)

    def lock():
        import threading

        return {"inside": threading.Lock()}

    failed = failure_of(lock, start_method=method)
    assert failed.cause.outcome is Outcome.UNPICKLABLE
    assert "lock" in str(failed)


def test_value_that_does_not_unpickle_here():
    me = os.getpid()

    def work():
        from rankwork import OnlyThere

        return OnlyThere(me) if os.environ["RANK"] == "1" else 1

    with pytest.raises(ProcessionError) as caught:
        procession.run(work, nproc=2)
    assert "rank 1" in str(caught.value)
    assert "not in this process" in str(caught.value)
    assert isinstance(caught.value.__cause__, LookupError)
    assert OnlyThere.__module__ == "rankwork"


@pytest.mark.parametrize("method", METHODS)
def test_a_forked_child_does_not_speak_for_its_rank(tmp_path, method):
    main = write(
        tmp_path / "main.py",
        f"""
        import os, procession, sys
        def work():
            for end in ("return", "raise", "os._exit", "sys.exit"):
                if not (pid := os.fork()):
                    if end == "return":
                        return 5
                    if end == "raise":
                        raise ValueError("of the child")
                    (os._exit if end == "os._exit" else sys.exit)(1)
                os.waitpid(pid, 0)
            return "of the parent"
        print(procession.run(work, nproc=2, start_method={method!r}))
        """,
    )
    assert run_python(main).stdout == "['of the parent', 'of the parent']\n"
