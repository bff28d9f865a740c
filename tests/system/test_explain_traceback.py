"""The report holds the traceback that Python would have printed, whatever was raised."""

import builtins
import re
import sys
import traceback

import pytest
from rankwork import Mute, Peculiar, fail_with

from procession import Logs, Module, Outcome, RemoteError, Script, Std
from support import failure_of, run_python, write

METHODS = ("forkserver", "spawn", "fork")
groups = pytest.mark.skipif(sys.version_info < (3, 11), reason="new in Python 3.11")
ExceptionGroup = getattr(builtins, "ExceptionGroup", None)


def shown(failed):
    """Give the traceback of a report, its indentation taken off."""
    lines = str(failed).splitlines()
    begin = next(i for i, line in enumerate(lines) if "Traceback (most recent call last):" in line)
    end = next(
        (i for i, line in enumerate(lines) if i > begin and line and not line.startswith("  ")),
        len(lines),
    )
    return "\n".join(line[2:] for line in lines[begin:end]).rstrip()


@pytest.mark.parametrize("method", METHODS)
def test_function(method):
    def inner(x):
        return 1 / x

    def outer():
        return inner(0)

    failed = failure_of(outer, nproc=2, start_method=method)
    assert failed.cause.outcome is Outcome.RAISED
    assert failed.cause.type_name == "ZeroDivisionError"
    assert failed.cause.message == "division by zero"
    text = failed.cause.traceback
    assert text.startswith("Traceback (most recent call last):\n")
    assert text.endswith("ZeroDivisionError: division by zero\n")
    assert re.findall(r", in (\w+)", text) == ["outer", "inner"]
    assert "return 1 / x" in text
    assert __file__ in text
    assert shown(failed) == text.rstrip()
    assert "procession/worker" not in str(failed)
    first = str(failed).splitlines()[0]
    assert first.startswith("outer failed: rank ")
    assert "raised ZeroDivisionError: division by zero after " in first


SCRIPT = """
    def inner(x):
        return 1 / x

    def outer():
        try:
            inner(0)
        except ZeroDivisionError as e:
            raise ValueError("outer") from e

    outer()
"""


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_script_and_module_fail_as_under_python(tmp_path, method):
    script = write(tmp_path / "failing_script.py", SCRIPT)
    alone = run_python(script)
    failed = failure_of(Script(str(script)), start_method=method)
    assert failed.cause.traceback == alone.stderr
    assert shown(failed) == alone.stderr.rstrip()
    failed = failure_of(Module("failing_script"), cwd=tmp_path, start_method=method)
    assert "ValueError: outer" in failed.cause.traceback
    assert re.findall(r", in (\S+)", failed.cause.traceback) == [
        "outer",
        "inner",
        "<module>",
        "outer",
    ]


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_stderr_of_a_script_is_that_of_python(tmp_path, method):
    script = write(tmp_path / "s.py", SCRIPT)
    logs = Logs(dir=tmp_path / "logs", redirect=Std.ALL)
    failed = failure_of(Script(str(script)), logs=logs, start_method=method)
    with open(failed.cause.stderr_log) as f:
        assert f.read() == run_python(script).stderr
    assert str(failed).count("ZeroDivisionError: division by zero") == 1  # not as stderr once more


@pytest.mark.parametrize("source", ["def f(:\n    pass\n", "x = (1,\n", "print('a\n", "return 1\n"])
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_syntax_error_in_the_script(tmp_path, source, method):
    script = tmp_path / "s.py"
    script.write_text(source)
    alone = run_python(script)
    failed = failure_of(Script(str(script)), start_method=method)
    assert failed.exit_code == 1
    assert failed.cause.traceback.strip() == alone.stderr.strip()


@pytest.mark.parametrize(
    ("source", "words"), [("if 1:\nx\n", "IndentationError"), ("\0\n", "null bytes")]
)
def test_other_errors_of_syntax(tmp_path, source, words):
    """Python's two ways to print these differ in spaces."""
    script = tmp_path / "s.py"
    script.write_text(source)
    assert words in failure_of(Script(str(script))).cause.traceback


def test_syntax_error_in_an_imported_module(tmp_path):
    write(tmp_path / "broken.py", "def f(:\n    pass\n")
    script = write(tmp_path / "s.py", "import broken\n")
    failed = failure_of(Script(str(script)))
    assert failed.cause.traceback == run_python(script).stderr


def test_import_error(tmp_path):
    script = write(tmp_path / "s.py", "import no_such_module_anywhere\n")
    failed = failure_of(Script(str(script)))
    assert failed.cause.type_name == "ModuleNotFoundError"
    assert failed.cause.traceback == run_python(script).stderr


def test_function_whose_module_a_rank_cannot_import(tmp_path, monkeypatch):
    source = "import os\nif 'RANK' in os.environ:\n    import nowhere\ndef f():\n    return 1\n"
    write(tmp_path / "rare_to_lose.py", source)
    monkeypatch.syspath_prepend(str(tmp_path))
    import rare_to_lose

    failed = failure_of(rare_to_lose.f)
    sys.modules.pop("rare_to_lose")
    assert "No module named 'nowhere'" in str(failed)
    assert isinstance(failed.__cause__, ModuleNotFoundError)


@pytest.mark.parametrize("method", METHODS)
def test_recursion_error(method):
    def deeper(n):
        return deeper(n + 1) + 1

    failed = failure_of(deeper, args=(0,), start_method=method)
    assert isinstance(failed.__cause__, RecursionError)
    assert "[Previous line repeated" in failed.cause.traceback
    assert len(str(failed).splitlines()) < 60


def test_memory_error():
    def work():
        return bytearray(1 << 60)

    failed = failure_of(work)
    assert isinstance(failed.__cause__, MemoryError)


# -- __cause__: the exception itself


@pytest.mark.parametrize("method", METHODS)
def test_cause_is_the_original_exception(method):
    def inner():
        raise KeyError("missing")

    def work():
        inner()

    failed = failure_of(work, nproc=2, start_method=method)
    error = failed.__cause__
    assert type(error) is KeyError
    assert error.args == ("missing",)
    frames = traceback.extract_tb(error.__traceback__)
    assert [f.name for f in frames] == ["work", "inner"]
    assert frames[-1].line == 'raise KeyError("missing")'
    assert frames[-1].filename == __file__
    text = "".join(traceback.format_exception(failed))
    assert text.index("KeyError: 'missing'") < text.index(
        "The above exception was the direct cause"
    )


@pytest.mark.parametrize("how", ["from", "context", "suppressed"])
@pytest.mark.parametrize("method", METHODS)
def test_chains(how, method):
    def work(how):
        try:
            raise KeyError("first")
        except KeyError as e:
            if how == "from":
                raise ValueError("second") from e
            if how == "suppressed":
                raise ValueError("second") from None
            raise ValueError("second")  # noqa: B904 - the context is what is tested

    failed = failure_of(work, args=(how,), start_method=method)
    error = failed.__cause__
    assert type(error) is ValueError
    assert type(error.__context__) is KeyError
    assert (error.__cause__ is not None) == (how == "from")
    assert error.__suppress_context__ == (how != "context")
    text = failed.cause.traceback
    assert ("direct cause of the following" in text) == (how == "from")
    assert ("During handling of the above" in text) == (how == "context")
    assert ("first" in text) == (how != "suppressed")
    rebuilt = "".join(traceback.format_exception(error))
    assert rebuilt.count("Traceback") == text.count("Traceback")


def test_chain_that_bites_its_own_tail():
    def work():
        a, b = ValueError("a"), KeyError("b")
        a.__context__, b.__context__ = b, a
        a.__cause__, b.__cause__ = b, a
        raise a

    failed = failure_of(work)
    assert type(failed.__cause__) is ValueError
    traceback.format_exception(failed)


def test_very_long_chain():
    def work():
        error = None
        for n in range(500):
            try:
                raise ValueError(n) from error
            except ValueError as e:
                error = e
        raise error

    failed = failure_of(work)
    assert failed.__cause__.args == (499,)


@groups
@pytest.mark.parametrize("method", METHODS)
def test_groups_and_notes(method):
    def work():
        errors = []
        for n in range(2):
            try:
                raise ValueError(n)
            except ValueError as e:
                e.add_note(f"note of {n}")
                errors.append(e)
        import builtins

        group = builtins.ExceptionGroup
        inner = group("inner", [KeyError("k")])
        outer = group("several things", [*errors, inner])
        outer.add_note("note of all")
        raise outer

    failed = failure_of(work, start_method=method)
    error = failed.__cause__
    assert type(error) is ExceptionGroup
    assert error.message == "several things"
    assert error.__notes__ == ["note of all"]
    assert [type(e) for e in error.exceptions] == [ValueError, ValueError, ExceptionGroup]
    assert error.exceptions[1].__notes__ == ["note of 1"]
    assert traceback.extract_tb(error.exceptions[0].__traceback__)[0].name == "work"
    for word in ("several things", "note of 0", "note of all", "KeyError: 'k'", "2 ----"):
        assert word in str(failed)


@groups
def test_group_with_a_member_that_does_not_pickle():
    def work():
        import builtins

        from rankwork import Peculiar

        raise builtins.ExceptionGroup("g", [ValueError(1), Peculiar("a", "b")])

    failed = failure_of(work)
    assert "Peculiar: a and b" in str(failed)
    assert failed.__cause__ is not None


def test_exception_that_does_not_unpickle():
    failed = failure_of(fail_with, args=(Peculiar, "left", "right"), nproc=2)
    assert type(failed.__cause__) is Peculiar  # rebuilt without its constructor
    assert str(failed.__cause__) == "left and right"
    assert failed.cause.type_name == "rankwork.Peculiar"
    frames = traceback.extract_tb(failed.__cause__.__traceback__)
    assert [f.name for f in frames] == ["fail_with"]
    assert "rankwork.Peculiar: left and right" in str(failed)


def test_exception_that_holds_what_does_not_pickle():
    def work():
        import threading

        error = ValueError("holds a lock")
        error.lock = threading.Lock()
        raise error

    failed = failure_of(work)
    assert "ValueError: holds a lock" in str(failed)
    assert type(failed.__cause__) is RemoteError
    assert "holds a lock" in str(failed.__cause__)


@pytest.mark.parametrize("method", METHODS)
def test_exception_whose_text_cannot_be_had(method):
    failed = failure_of(fail_with, args=(Mute, 1), start_method=method)
    assert failed.cause.type_name == "rankwork.Mute"
    assert "str() failed" in str(failed)
    assert isinstance(failed.__cause__, (Mute, RemoteError))


def test_exception_that_attacks_whoever_looks_at_it():
    def work():
        class Hostile(Exception):
            def __str__(self):
                raise SystemExit(0)

            __repr__ = __str__

            def __reduce__(self):
                raise KeyboardInterrupt

        raise Hostile

    failed = failure_of(work)
    assert failed.cause.outcome is Outcome.RAISED
    assert "Hostile" in failed.cause.type_name
    assert failed.exit_code == 1


def test_base_exception():
    def work():
        raise GeneratorExit("odd")

    failed = failure_of(work)
    assert isinstance(failed.__cause__, GeneratorExit)
    assert failed.exit_code == 1


def test_os_error_keeps_its_attributes():
    def work():
        open("/nowhere/at/all").close()

    error = failure_of(work).__cause__
    assert type(error) is FileNotFoundError
    assert (error.errno, error.filename) == (2, "/nowhere/at/all")


def test_exception_while_the_arguments_are_unpickled():
    class Bomb:
        def __reduce__(self):
            return fail_with, (ValueError, "while unpickling")

    failed = failure_of(print, args=(Bomb(),), nproc=2)
    assert isinstance(failed.__cause__, ValueError)
    assert "while unpickling" in str(failed)
    assert "fail_with" in failed.cause.traceback


def test_very_long_message_does_not_drown_the_headline():
    def work():
        raise ValueError("x" * 100_000 + "\nsecond line")

    failed = failure_of(work)
    assert len(str(failed).splitlines()[0]) < 500
    assert failed.cause.message == "x" * 100_000 + "\nsecond line"


def test_text_that_is_no_text():
    def work():
        raise ValueError("lone \udcff surrogate and nul \0")

    failed = failure_of(work)
    assert isinstance(failed.__cause__, ValueError)
    str(failed).encode(errors="backslashreplace")


def test_warnings_and_output_of_a_function_rank_do_not_repeat_the_traceback(capfd):
    def work():
        raise ValueError("once")

    failed = failure_of(work, nproc=2)
    assert str(failed).count("ValueError: once\n") == 1
    assert "once" not in capfd.readouterr().err


def test_report_of_an_uncaught_failure_in_the_launcher(tmp_path):
    """What a user sees who does not catch anything."""
    main = write(
        tmp_path / "main.py",
        """
        import procession
        def work():
            raise ValueError("seen")
        procession.run(work, nproc=2)
        """,
    )
    done = run_python(main)
    assert done.returncode == 1
    assert "raised ValueError: seen" in done.stderr
    assert f'File "{main}", line 3, in work' in done.stderr
    assert "procession.values.errors.GroupFailed" in done.stderr


def test_module_that_fails_while_it_is_found(tmp_path):
    write(tmp_path / "pkg" / "__init__.py", "raise ValueError('in the package')")
    write(tmp_path / "pkg" / "mod.py", "")
    failed = failure_of(Module("pkg.mod"), cwd=tmp_path)
    assert "ValueError: in the package" in str(failed)
    assert "procession" not in failed.cause.traceback
