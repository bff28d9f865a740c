"""What a program leaves to its end is done by a rank's quick end as by an interpreter."""

import textwrap

import pytest

import procession
from support import write

LAST = """
class Last:
    def __del__(self, open=open):
        with open("out", "a") as f:
            f.write("gone\\n")
"""
# Each program leaves something in the file `out`. What is held by `sys` outlives all modules.
PROGRAMS = {
    "a file that sys holds": """
        import sys
        sys.held = open("out", "w")
        sys.held.write("text")
    """,
    "a stream of a class of its own": """
        import io, sys
        class Text(io.TextIOWrapper):
            pass
        sys.held = Text(open("out", "wb"))
        sys.held.write("text")
    """,
    "a stream that counts its flushes": """
        import io, sys
        class Raw(io.RawIOBase):
            said = []
            def writable(self): return True
            def write(self, data):
                Raw.said.append(len(data))
                return len(data)
            def close(self, open=open, closed=[]):
                if not closed:
                    closed.append(1)
                    with open("out", "a") as f:
                        f.write(f"closed {self.said}\\n")
                super().close()
        sys.held = io.BufferedWriter(Raw())
        sys.held.write(b"text")
    """,
    "a compressed file": """
        import gzip, sys
        sys.held = gzip.GzipFile("out.gz", "wb", mtime=0)
        sys.held.write(b"text" * 100)
    """,
    "a temporary directory": """
        import sys, tempfile
        sys.held = tempfile.TemporaryDirectory(dir=".", prefix="temporary-")
    """,
    "a destructor in the script": """
        last = Last()
    """,
    "a destructor that sys holds": """
        import sys
        sys.held = Last()
    """,
    "a destructor that the collector does not know": """
        import os, sys
        class Last:
            __slots__ = ()
            def __del__(self, open=os.open, write=os.write, flags=os.O_CREAT | os.O_WRONLY):
                write(open("out", flags), b"gone")
        sys.held = Last()
    """,
    "a destructor in a list of the library's": """
        import string
        string.held = [Last()]
    """,
    "a destructor in a list of a preloaded module": """
        import colorsys
        colorsys.held = [Last()]
    """,
    "a destructor in a cycle": """
        last = Last()
        last.self = last
        del last
    """,
    "an object among the modules": """
        import sys
        sys.modules["own"] = Last()
    """,
    "a module that replaced itself": """
        import sys, types
        class Module(types.ModuleType):
            def __del__(self, open=open):
                with open("out", "a") as f:
                    f.write("gone\\n")
        sys.modules["own"] = Module("own")
    """,
    "a generator": """
        import sys
        def steps(open=open):
            try:
                yield 1
            finally:
                with open("out", "a") as f:
                    f.write("finally\\n")
        sys.held = steps()
        next(sys.held)
    """,
    "a coroutine": """
        import sys
        class Wait:
            def __await__(self):
                yield
        async def work(open=open):
            try:
                await Wait()
            finally:
                with open("out", "a") as f:
                    f.write("finally\\n")
        sys.held = work()
        sys.held.send(None)
    """,
    "a context manager that nobody left": """
        import contextlib, sys
        @contextlib.contextmanager
        def inside(open=open):
            try:
                yield
            finally:
                with open("out", "a") as f:
                    f.write("left\\n")
        sys.held = inside()
        sys.held.__enter__()
    """,
    "a callback of a weak reference": """
        import string, sys, weakref
        class Thing:
            pass
        def told(reference, open=open):
            with open("out", "a") as f:
                f.write("told\\n")
        string.thing = Thing()
        # What is held by the class of streams is there longer than anything else.
        sys.stdout.reference = weakref.ref(string.thing, told)
    """,
    "a finalizer": """
        import weakref
        class Thing:
            pass
        thing = Thing()
        weakref.finalize(thing, lambda: open("out", "a").write("finalized"))
    """,
    "a thread's own": """
        import threading
        import sys
        sys.held = threading.local()
        sys.held.last = Last()
    """,
    "a context variable": """
        import contextvars, sys
        sys.variable = contextvars.ContextVar("v")
        sys.variable.set(Last())
    """,
    "a log": """
        import logging
        import logging.handlers
        target = logging.FileHandler("out", delay=True)
        logging.root.addHandler(logging.handlers.MemoryHandler(100, target=target))
        logging.warning("text")
    """,
    "a database": """
        import sqlite3, sys
        sys.held = sqlite3.connect("out.db")
        sys.held.execute("create table t (a)")
        sys.held.commit()
        sys.held.execute("insert into t values (1)")
    """,
    "objects that are frozen": """
        import gc
        import sys
        sys.held = Last()
        gc.freeze()
    """,
}


def left(directory, source, **options):
    """Run one rank in a directory of its own; gives how it ended and what it left there."""
    script = write(directory / "program.py", source)
    result = procession.run(procession.Script(str(script)), cwd=directory, **options)
    assert result == [None]
    script.unlink()
    return {p.name: p.read_bytes() for p in sorted(directory.iterdir()) if p.is_file()}


@pytest.mark.parametrize("what", PROGRAMS)
def test_the_end_of_a_program(tmp_path, what):
    source = LAST + textwrap.dedent(PROGRAMS[what])
    slow = left(tmp_path / "slow", source, start_method="spawn")
    quick = left(tmp_path / "quick", source, preload=["colorsys"])
    nothing = left(tmp_path / "nothing", source, preload=None)
    assert quick == slow
    assert nothing == slow
    assert bool(slow) is (what != "a temporary directory")


MARKED = """
    import os
    class Last:
        def __del__(self, open=open):
            with open("ended", "w") as f:
                f.write("by the interpreter")
    last = Last()
"""


@pytest.mark.parametrize("preload", [["marked"], None])
def test_the_end_is_quick_where_something_was_preloaded(tmp_path, monkeypatch, preload):
    """What was preloaded is taken apart by the interpreter alone, what the script holds is not."""
    write(tmp_path / "path" / "marked.py", MARKED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    source = "import marked\n" + LAST + textwrap.dedent(PROGRAMS["a destructor in the script"])
    told = left(tmp_path / "here", source, preload=preload)
    assert told.pop("out") == b"gone\n"
    assert bool(told) is (preload is None)
