"""`start_processes` and the `PContext` that it returns: functions and programs."""

import signal
from pathlib import Path

import pytest
from elasticwork import (
    SEEN_AT_IMPORT,
    add,
    fail,
    give,
    seen_at_import,
    variables,
)

import procession
from procession.elastic import (
    DefaultLogsSpecs,
    MultiprocessContext,
    PContext,
    RunProcsResult,
    Std,
    SubprocessContext,
    start_processes,
)
from support import run_python, write

METHODS = ["spawn", "forkserver", "fork"]


@pytest.fixture
def specs(tmp_path):
    return DefaultLogsSpecs(log_dir=str(tmp_path / "logs"))


def run(entrypoint, args, specs, envs=None, **options):
    """Start and wait; gives the result."""
    envs = {rank: {} for rank in args} if envs is None else envs
    return start_processes("work", entrypoint, args, envs, specs, **options).wait(60)


# -- functions


@pytest.mark.parametrize("method", METHODS)
def test_functions_return_their_values_by_rank(specs, method):
    pc = start_processes(
        "add", add, {0: (1, 2, 3), 1: (4, 5, 6)}, {0: {}, 1: {}}, specs, start_method=method
    )
    assert type(pc) is MultiprocessContext
    assert isinstance(pc, PContext)
    assert pc.start_method == method
    assert (pc.name, pc.nprocs, pc.entrypoint) == ("add", 2, add)
    result = pc.wait()
    assert result == RunProcsResult({0: 6, 1: 15}, {}, pc.stdouts, pc.stderrs)
    assert not result.is_failed()
    assert pc.wait() is result
    assert pc.wait(0) is result


def test_the_default_start_method_is_spawn(specs):
    pc = start_processes("give", give, {0: ()}, {0: {}}, specs)
    assert pc.start_method == "spawn"
    assert pc.wait().return_values == {0: ()}


def test_unknown_start_method_is_refused(specs):
    with pytest.raises(ValueError, match="cannot find context for 'posix_spawn'"):
        start_processes("give", give, {0: ()}, {0: {}}, specs, start_method="posix_spawn")


@pytest.mark.parametrize("method", METHODS)
def test_a_function_gets_the_environment_before_its_code_is_imported(specs, method, monkeypatch):
    """The original sets it when everything has been unpickled, and thus imported."""
    monkeypatch.setenv("SEEN_AT_IMPORT", "not by rank")
    envs = {0: {"SEEN_AT_IMPORT": "zero"}, 1: {"SEEN_AT_IMPORT": "one"}}
    result = run(seen_at_import, {0: (), 1: ()}, specs, envs, start_method=method)
    expected = {0: "zero", 1: "one"}
    if method == "fork":  # of this process, which has imported it
        expected = dict.fromkeys((0, 1), SEEN_AT_IMPORT)
    assert result.return_values == expected


def test_lambdas_and_closures_run(specs):
    """The original cannot pickle them."""
    seven = 7
    assert run(lambda x: x * seven, {0: (6,)}, specs).return_values == {0: 42}


# -- programs


def test_programs_get_their_arguments_as_text(specs, tmp_path):
    specs = DefaultLogsSpecs(str(tmp_path), redirects=Std.OUT)
    args = {0: (1, 2, 3), 1: ([1, 2, 3],), 2: ("a b", tmp_path), 3: "bare string", 4: ()}
    pc = start_processes("echo", "echo", args, {r: {} for r in args}, specs)
    assert type(pc) is SubprocessContext
    result = pc.wait()
    assert result.return_values == dict.fromkeys(range(5))
    said = [Path(result.stdouts[rank]).read_text() for rank in range(5)]
    assert said == ["1 2 3\n", "[1, 2, 3]\n", f"a b {tmp_path}\n", "bare string\n", "\n"]


@pytest.mark.parametrize(("mode", "kind"), [(None, FileNotFoundError), (0o600, PermissionError)])
def test_a_program_that_cannot_be_run(specs, tmp_path, mode, kind):
    program = tmp_path / "program"
    if mode is not None:
        write(program, "#!/bin/sh\n").chmod(mode)
    with pytest.raises(kind, match=r"program"):
        start_processes("work", str(program), {0: ("foo",), 1: ("bar",)}, {0: {}, 1: {}}, specs)


def test_programs_run_where_this_process_is_and_rank_0_has_its_input(specs, tmp_path):
    script = write(
        tmp_path / "launch.py",
        """
        from procession.elastic import start_processes
        args = {0: ("-c", "read x; echo $x $PWD"), 1: ("-c", "! read x")}
        assert not start_processes("sh", "sh", args, log_dir="logs").wait().is_failed()
        """,
    )
    done = run_python(script, input="hello\n", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"hello {tmp_path}\n"), done.stderr


@pytest.mark.parametrize("entrypoint", ["false", fail])
def test_every_rank_has_a_process_however_soon_the_first_fails(specs, entrypoint):
    """Agents keep what `pids` gives at the start, and compare it later."""
    ranks = range(8)
    pc = start_processes(
        "false", entrypoint, dict.fromkeys(ranks, ()), {r: {} for r in ranks}, specs
    )
    assert list(pc.pids()) == list(ranks)
    result = pc.wait()
    assert result.is_failed()
    assert list(pc.pids()) == list(ranks)


# -- the environment

TORCHRUNS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")


@pytest.mark.parametrize("method", [*METHODS, None])
def test_ranks_have_our_environment_and_theirs_and_no_more(specs, tmp_path, monkeypatch, method):
    monkeypatch.setenv("OURS", "ours")
    monkeypatch.setenv("WORLD_SIZE", "16")  # as under torchrun
    names = ("OURS", "THEIRS", "NUMBER", *TORCHRUNS)
    envs = {0: {"THEIRS": "theirs", "NUMBER": 7}, 1: {"OURS": None, "RANK": "12"}}
    expected = [
        {"OURS": "ours", "THEIRS": "theirs", "NUMBER": "7", "WORLD_SIZE": "16"},
        {"RANK": "12", "WORLD_SIZE": "16"},
    ]
    if method is None:
        specs = DefaultLogsSpecs(str(tmp_path), redirects=Std.OUT)
        result = run("env", {0: (), 1: ()}, specs, envs)
        lines = [Path(result.stdouts[r]).read_text().splitlines() for r in (0, 1)]
        seen = [{k: v for k, _, v in (x.partition("=") for x in each)} for each in lines]
    else:
        result = run(variables, {0: names, 1: names}, specs, envs, start_method=method)
        seen = list(result.return_values.values())
    for rank in (0, 1):
        found = {k: seen[rank].get(k) for k in names}
        assert {k: v for k, v in found.items() if v is not None} == expected[rank]


def test_the_callers_mappings_stay_as_they_are(specs):
    args, envs = {0: "word"}, {0: {"NUMBER": 7}}
    pc = start_processes("echo", "echo", args, envs, specs)
    pc.wait()
    assert (args, envs) == ({0: "word"}, {0: {"NUMBER": 7}})
    assert pc.envs == {0: {"NUMBER": "7", "TORCHELASTIC_ERROR_FILE": pc.error_files[0]}}


# -- what is refused


@pytest.mark.parametrize(
    ("args", "envs", "what"),
    [
        ({0: (), 1: ()}, {0: {}}, r"envs.* expected: \{0, 1\}, actual: \{0\}"),
        ({0: ()}, {0: {}, 1: {}}, r"envs.* expected: \{0\}, actual: \{0, 1\}"),
        ({1: (), 2: ()}, {1: {}, 2: {}}, r"args.* expected: \{0, 1\}, actual: \{1, 2\}"),
    ],
)
def test_key_sets_must_be_the_local_ranks(specs, args, envs, what):
    with pytest.raises(RuntimeError, match=what):
        start_processes("work", give, args, envs, specs)


@pytest.mark.parametrize("older", [{"log_dir": "x"}, {"redirects": Std.OUT}, {"tee": {0: Std.ALL}}])
def test_both_forms_at_once_are_refused(specs, older):
    with pytest.raises(TypeError, match="but not both"):
        start_processes("work", give, {0: ()}, {0: {}}, specs, **older)


def test_a_start_that_fails_leaves_nothing(specs, tmp_path, monkeypatch):
    broken = write(tmp_path / "broken", "#!/no/such/interpreter\n")
    broken.chmod(0o700)
    with pytest.raises(procession.StartFailed, match="No such file"):
        start_processes("work", str(broken), {0: (), 1: ()}, {0: {}, 1: {}}, specs)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_second_start_is_refused(specs):
    pc = start_processes("true", "true", {0: ()}, {0: {}}, specs)
    with pytest.raises(ValueError, match="already initialized"):
        pc.start()
    pc.close()
