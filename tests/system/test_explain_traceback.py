"""The report holds the traceback that Python would have printed, whatever was raised."""

import builtins
import re
import sys
import traceback

import pytest

from procession import Module, Outcome, RemoteError, Script
from support import METHODS, failure_of, run_python, write

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


@pytest.mark.parametrize("method", METHODS[:2])
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
    text = failed.cause.traceback
    assert ("direct cause of the following" in text) == (how == "from")
    assert ("During handling of the above" in text) == (how == "context")
    assert ("first" in text) == (how != "suppressed")


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
    for word in ("several things", "note of 0", "note of all", "KeyError: 'k'", "2 ----"):
        assert word in str(failed)


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


def test_very_long_message_does_not_drown_the_headline():
    def work():
        raise ValueError("x" * 100_000 + "\nsecond line")

    failed = failure_of(work)
    assert len(str(failed).splitlines()[0]) < 500
    assert failed.cause.message.endswith("x\nsecond line")
    assert len(str(failed.__cause__)) == 100_012
