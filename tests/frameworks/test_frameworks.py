"""The real frameworks, as they are and adopted: the same outcomes, by ranks of procession.

Called by `make test-frameworks`, in an environment of its own. What is not installed is skipped.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from frameworkcases import CASES, missing, prepare, run

from support import run_python, write

pytestmark = [
    pytest.mark.torch,
    pytest.mark.timeout(900),  # they take seconds where nothing else runs,
]


def ready(case, directory):
    if why := missing(case.needs):
        pytest.skip(why)
    prepare(directory)


def tell(name, **runs):
    told = ", ".join(f"{who} {d.wall:.1f} s (CPU {d.cpu:.1f} s)" for who, d in runs.items())
    print(f"{name}: {told}")


@pytest.fixture(autouse=True)
def own_temporary_directory(tmp_path, monkeypatch):
    """torch's LaunchConfig makes a directory for logs, which nobody removes."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))


@pytest.mark.parametrize("name", CASES)
def test_the_same_outcome(tmp_path, name):
    case = CASES[name]
    ready(case, tmp_path)
    adopted = run(case, tmp_path, adopted=True)
    assert adopted.code == 0, adopted.output
    whose = "procession" if case.ours else "itself"
    assert adopted.ranks() == {0: (case.said, whose), 1: (case.said, whose)}, adopted.output
    plain = run(case, tmp_path, adopted=False)
    assert plain.code == 0, plain.output
    assert plain.ranks() == {0: (case.said, "itself"), 1: (case.said, "itself")}, plain.output
    tell(name, torch=plain, procession=adopted)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.fails is not None])
def test_a_failure_has_its_cause(tmp_path, name):
    """The exit code is the framework's own, and the rank's exception is told."""
    case = CASES[name]
    ready(case, tmp_path)
    done = run(case, tmp_path, adopted=True, BOOM="1")
    assert done.code == case.fails, done.output
    assert "ValueError: boom" in done.output
    assert "in say" in done.output
    assert 1 not in done.ranks()


def test_accelerates_own_scripts(tmp_path):
    """Its tests of notebook_launcher, and one of its launch.

    Not its test of restarts: a rank that finds its queue empty goes home, and the other waits for
    it, whoever launches.
    """
    case = CASES["notebook_launcher"]
    ready(case, tmp_path)
    import accelerate

    own = replace(case, command=["python", "own_notebook_tests.py"])
    done = run(own, tmp_path, adopted=True, ACCELERATE_NUM_PROCESSES="2")
    assert done.code == 0, done.output
    assert done.output.count("Launching training on 2") == 4
    launch = CASES["accelerate launch"]
    script = Path(accelerate.__file__).parent / "test_utils" / "scripts" / "test_ops.py"
    own = replace(launch, command=[*launch.command[:-1], str(script)])
    done = run(own, tmp_path, adopted=True)
    assert done.code == 0, done.output
    assert "testing reduce_sum" in done.output


def test_in_python(tmp_path):
    """`procession.adopt()` after accelerate was imported."""
    ready(CASES["notebook_launcher"], tmp_path)
    source = """
        import sys
        import accelerate, procession
        from notebook import main

        procession.adopt()
        accelerate.notebook_launcher(main, (), num_processes=2, use_port=sys.argv[1])
    """
    from seams.system import free_port

    script = write(tmp_path / "block.py", source)
    done = run_python(script, free_port(), cwd=tmp_path, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("sum 3.0, launched by procession") == 2
