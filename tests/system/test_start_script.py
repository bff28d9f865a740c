import json
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import procession
from procession import Logs, Module, Script, Std
from support import METHODS, failure_of, run_python, write

LOOK = """
    import json, os, sys
    spec = __spec__
    print(json.dumps({
        "argv": sys.argv,
        "path0": sys.path[:2],
        "path": sys.path,
        "name": __name__,
        "file": globals().get("__file__"),
        "spec": None if spec is None else [spec.name, spec.origin],
        "package": __package__,
        "loader": type(__loader__).__name__,
        "doc": __doc__,
        "cached": __cached__ if "__cached__" in globals() else "none",
        "main": sys.modules["__main__"].__dict__ is globals(),
        "names": sorted(n for n in globals() if n.startswith("__")),
        "flags": list(sys.flags),
        "executable": sys.executable,
        "orig_argv": len(sys.orig_argv) > 0,
        "prefix": [sys.prefix, sys.base_prefix],
        "warnoptions": sys.warnoptions,
        "xoptions": sys._xoptions,
        "dont_write_bytecode": sys.dont_write_bytecode,
        "encodings": [s.encoding for s in (sys.stdin, sys.stdout, sys.stderr)],
        "errors": [s.errors for s in (sys.stdin, sys.stdout, sys.stderr)],
        "stream_names": [s.name for s in (sys.stdin, sys.stdout, sys.stderr)],
        "same_streams": [sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__],
        "cwd": os.getcwd(),
        "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
        "threads": len(os.listdir("/proc/self/task")),
        "recursion": sys.getrecursionlimit(),
    }))
"""
# What a launcher may change: output is unbuffered, and one module is there already.
DIFFERENT = {"cached"}


def said(tmp_path, program, nproc=1, **options):
    """Run a script and give what each rank printed."""
    logs = Logs(dir=tmp_path / "logs", redirect=Std.ALL)
    with procession.start(program, nproc=nproc, logs=logs, **options) as group:
        result = group.wait()
    for end in result.ranks:
        assert Path(end.stderr_log).read_text() == ""
    return [Path(r.stdout_log).read_text() for r in result.ranks]


def same(rank, alone):
    """Compare what a rank saw with what it sees under Python itself."""
    seen, expected = json.loads(rank), json.loads(alone)
    for key in DIFFERENT:
        seen.pop(key), expected.pop(key)
    assert seen == expected


def alone(*argv, **options):
    # -u, as ranks are unbuffered by a variable that this process has not
    done = run_python(*argv, **options)
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(autouse=True)
def unbuffered(monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")


@pytest.mark.parametrize("method", METHODS[:2])
def test_a_program_sees_what_python_shows_it(tmp_path, monkeypatch, method):
    """An archive and a directory find their modules after a change of the directory, too."""
    import zipapp

    moves = f"import os; os.chdir('/'); import helper; assert helper.X\n{dedent(LOOK)}"
    write(tmp_path / "app" / "__main__.py", moves)
    write(tmp_path / "app" / "helper.py", "X = 1")
    zipapp.create_archive(tmp_path / "app", tmp_path / "app.pyz")
    write(tmp_path / "pkg" / "__init__.py", "")
    look = write(tmp_path / "pkg" / "look.py", LOOK)
    (tmp_path / "link.py").symlink_to("pkg/look.py")
    monkeypatch.chdir(tmp_path)
    for path in (str(look), "pkg/look.py", "link.py", "app", "app.pyz"):
        (out,) = said(tmp_path, Script(path, ("-x", "a b")), start_method=method)
        same(out, alone(path, "-x", "a b"))
    (out,) = said(tmp_path, Module("pkg.look", ("a",)), start_method=method)
    same(out, alone("-m", "pkg.look", "a"))
    (out,) = said(tmp_path, Script("look.py"), cwd=tmp_path / "pkg", start_method=method)
    same(out, alone("look.py", cwd=tmp_path / "pkg"))


@pytest.mark.parametrize("flags", [["-OO", "-B"], ["-X", "utf8", "-W", "ignore"], ["-P"], ["-I"]])
@pytest.mark.parametrize("method", METHODS[:2])
def test_flags_of_the_launcher_are_those_of_its_ranks(tmp_path, flags, method):
    if flags == ["-P"] and sys.version_info < (3, 11):
        pytest.skip("-P is new in Python 3.11")
    look = write(tmp_path / "look.py", LOOK)
    main = write(
        tmp_path / "main.py",
        f"""
        import sys
        sys.path.insert(0, {str(Path(procession.__file__).parents[1])!r})
        import procession
        procession.run(procession.Script({str(look)!r}), start_method={method!r})
        """,
    )
    done = run_python(*flags, main)
    assert done.stderr == ""
    seen, expected = json.loads(done.stdout), json.loads(alone(*flags, look))
    for key in ("flags", "path", "warnoptions", "xoptions", "dont_write_bytecode"):
        assert seen[key] == expected[key], key


@pytest.mark.parametrize("method", METHODS[:2])
@pytest.mark.parametrize("context", ["spawn", "fork", "forkserver"])
def test_multiprocessing_in_a_script(tmp_path, method, context):
    script = write(
        tmp_path / "script.py",
        f"""
        import multiprocessing

        def square(x):
            return x * x

        class Held:
            pass

        def child(queue):
            queue.put((__name__, Held.__module__))

        if __name__ == "__main__":
            context = multiprocessing.get_context("{context}")
            with context.Pool(2) as pool:
                print(pool.map(square, range(4)))
            queue = context.Queue()
            process = context.Process(target=child, args=(queue,))
            process.start()
            name, _ = queue.get()
            print(name == ("__main__" if "{context}" == "fork" else "__mp_main__"))
            process.join()
            print(process.exitcode)
        """,
    )
    outs = said(tmp_path, Script(str(script)), nproc=2, start_method=method)
    assert outs == ["[0, 1, 4, 9]\nTrue\n0\n"] * 2


def test_missing_script_and_module():
    with pytest.raises(procession.SpecError, match=r"there is no script '/nowhere/x\.py'"):
        procession.run(Script("/nowhere/x.py"))
    failed = failure_of(Module("no_such_module_anywhere"))
    assert "No module named no_such_module_anywhere" in str(failed)
    assert failed.exit_code == 1
