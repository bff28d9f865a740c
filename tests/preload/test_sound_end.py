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
# Each program leaves something in the file `out`.
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
        import io
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
        held = io.BufferedWriter(Raw())
        held.write(b"text")
    """,
    "a compressed file": """
        import gzip
        held = gzip.GzipFile("out.gz", "wb", mtime=0)
        held.write(b"text" * 100)
    """,
    "a temporary directory": """
        import sys, tempfile
        sys.held = tempfile.TemporaryDirectory(dir=".", prefix="temporary-")
    """,
    "a destructor in the script": """
        last = Last()
    """,
    "a destructor that the collector does not know": """
        import os
        class Last:
            __slots__ = ()
            def __del__(self, open=os.open, write=os.write, flags=os.O_CREAT | os.O_WRONLY):
                write(open("out", flags), b"gone")
        held = Last()
    """,
    "a destructor in a script with a handler": """
        import signal
        def handle(*_):
            pass
        last = Last()
        signal.signal(signal.SIGTERM, handle)
    """,
    "a stream of the script in place of the standard output": """
        import os, sys
        class Tee:
            closed = False
            def write(self, text):
                with open("out", "a") as f:
                    f.write(text + str(os.path.exists("out")))
            def flush(self):
                os.path.exists("out")
        sys.stdout = Tee()
        print("text")
    """,
    "destructors in two modules": """
        import sys, types
        class Named:
            def __init__(self, name):
                self.name = name
            def __del__(self, open=open):
                with open("out", "a") as f:
                    f.write(self.name)
        for name in ("first", "second", "third"):
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].held = Named(name)
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
        def steps(open=open):
            try:
                yield 1
            finally:
                with open("out", "a") as f:
                    f.write("finally\\n")
        held = steps()
        next(held)
    """,
    "a finalizer": """
        import weakref
        class Thing:
            pass
        thing = Thing()
        weakref.finalize(thing, lambda: open("out", "a").write("finalized"))
    """,
    "a log": """
        import logging
        import logging.handlers
        target = logging.FileHandler("out", delay=True)
        logging.root.addHandler(logging.handlers.MemoryHandler(100, target=target))
        logging.warning("text")
    """,
    "a database": """
        import sqlite3
        held = sqlite3.connect("out.db")
        held.execute("create table t (a)")
        held.commit()
        held.execute("insert into t values (1)")
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
