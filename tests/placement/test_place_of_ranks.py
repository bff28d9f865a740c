"""Ranks in their place: real processes on the CPUs of this machine."""

import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import placework
import pytest

import procession
from procession import Placement
from procession.elastic.api import DefaultLogsSpecs
from seams.elastic import elastic
from seams.values import SpecError, cpusets
from support import QUICK, Launcher, failure_of, run_python, shell, until, write

CPUS = sorted(os.sched_getaffinity(0))
METHODS = ("forkserver", "spawn", "fork")
two_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
LIMIT = 1 << 30
NO_CGROUP = "procession.system.memory_groups.MemoryGroups.make"


@pytest.fixture(autouse=True)
def without_cgroups(monkeypatch):
    """Take the limit that can be had anywhere."""
    monkeypatch.setattr(NO_CGROUP, lambda _: None)


@two_cpus
@pytest.mark.parametrize("method", METHODS)
def test_functions(method):
    placement = Placement(cpus_per_rank=1, memory_limit=LIMIT)
    values = procession.run(placework.place, nproc=2, placement=placement, start_method=method)
    cpus = [value.pop("cpus") for value in values]
    assert all(len(own) == 1 for own in cpus)
    assert cpus[0] != cpus[1]
    expected = {"data": (LIMIT, LIMIT), "threads": "1"}
    assert values == [expected, expected]
    assert sorted(os.sched_getaffinity(0)) == CPUS


SEE = "import json, placework; print(json.dumps(placework.place()))"


@two_cpus
def test_programs(tmp_path):
    placement = Placement(cpus_per_rank=1, memory_limit="1G")
    env = {"PYTHONPATH": os.path.dirname(placework.__file__)}
    group = procession.start(
        [sys.executable, "-c", SEE],
        nproc=2,
        placement=placement,
        env=env,
        logs=procession.Logs(dir=tmp_path, redirect=procession.Std.OUT),
    )
    ranks = group.wait().ranks
    seen = [json.loads(Path(rank.stdout_log).read_text()) for rank in ranks]
    cpus = [value.pop("cpus") for value in seen]
    assert [len(own) for own in cpus] == [1, 1]
    assert cpus[0] != cpus[1]
    assert {n for own in cpus for n in own} <= set(CPUS)
    assert [value["threads"] for value in seen] == ["1", "1"]
    assert [value["data"] for value in seen] == [[LIMIT, LIMIT]] * 2
    assert "cpus_per_rank=1" in json.loads(Path(group.run_dir, "run.json").read_text())["placement"]


@two_cpus
def test_the_agent_keeps_its_own_place():
    first = procession.run(placework.place, nproc=1, placement=Placement(cpus_per_rank=1))
    second = procession.run(placework.place, nproc=1)  # from the same agent
    assert len(first[0]["cpus"]) == 1
    assert second[0]["cpus"] == CPUS
    assert first[0]["threads"] == "1"  # it has CPUs of its own, although it is alone
    assert second[0]["threads"] is None


@two_cpus
def test_a_restart_takes_its_place_again(tmp_path):
    told = f"$OMP_NUM_THREADS:$(ulimit -d) >> {tmp_path}/seen"
    program = f'echo {told}; [ "$TORCHELASTIC_RESTART_COUNT" = 1 ]'
    placement = Placement(cpus_per_rank=1, memory_limit="1G")
    procession.run(shell(program), placement=placement, restart=procession.Restart(max=1))
    assert (tmp_path / "seen").read_text() == f"1:{LIMIT >> 10}\n" * 2


def test_which_limit_of_memory_is_in_force_is_said_once(caplog):
    procession.run(placework.place, nproc=2, placement=Placement(memory_limit="1G"))
    said = [r.message for r in caplog.records if "memory limit" in r.message]
    assert said == [
        "procession: memory limit: 1G for each process by RLIMIT_DATA; no cgroup can be made here "
        "[P404]"
    ]


def test_a_function_that_needs_more_memory_is_explained():
    failed = failure_of(placework.hoard, args=(900,), placement=Placement(memory_limit="400M"))
    assert failed.cause.type_name == "MemoryError"
    assert failed.cause.note == "its memory limit is 400M"
    assert "its memory limit is 400M" in str(failed)


class Groups:
    """Cgroups that are plain directories; the kernel has killed something in that of rank 1."""

    def __init__(self, where):
        self.where = where
        self.closed = False

    def path(self, attempt, rank):
        return str(self.where / f"{attempt}_{rank}")

    def add(self, attempt, rank):
        os.mkdir(self.path(attempt, rank))
        Path(self.path(attempt, rank), "cgroup.procs").touch()
        return self.path(attempt, rank)

    def killed(self, attempt, rank):
        return rank == 1

    def close(self):
        self.closed = True


def test_ranks_enter_their_cgroups_and_a_kill_in_one_is_explained(monkeypatch, tmp_path, caplog):
    groups = Groups(tmp_path)
    monkeypatch.setattr(NO_CGROUP, lambda limit: groups)
    program = shell("[ $RANK = 1 ] && kill -KILL $$; ulimit -d; sleep 60")
    failed = failure_of(program, nproc=2, placement=Placement(memory_limit="2G"), stop=QUICK)
    assert (failed.cause.rank, failed.cause.out_of_memory) == (1, True)
    assert "was killed by SIGKILL" in str(failed)
    assert "likely out of memory" in str(failed)
    assert failed.cause.note == "its memory limit is 2G"
    assert [(tmp_path / f"0_{r}" / "cgroup.procs").read_text() for r in (0, 1)] == ["0", "0"]
    assert "memory limit: 2G for each rank by a cgroup of its own" in caplog.text
    assert groups.closed


KILLED = """
    import sys
    from pathlib import Path
    import procession
    from procession.system.memory_groups import MemoryGroups
    from test_place_of_ranks import Groups

    where = Path(sys.argv[1])
    MemoryGroups.make = lambda limit: Groups(where)
    program = ["sh", "-c", f"rm {where}/0_$RANK/cgroup.procs; touch {where}/$RANK; sleep 60"]
    procession.run(program, nproc=2, placement=procession.Placement(memory_limit="1G"))
    """


def test_the_agent_removes_cgroups_when_the_launcher_is_killed(tmp_path):
    script = write(tmp_path / "launcher.py", KILLED)
    where = tmp_path / "where"
    where.mkdir()
    here = os.path.dirname(__file__)
    tests = os.path.dirname(here)
    path = os.pathsep.join([os.path.dirname(tests), here, tests])  # `chaos` is that of the root
    with Launcher(script, where, env={**os.environ, "PYTHONPATH": path}) as launcher:
        until(lambda: (where / "0").exists() and (where / "1").exists(), "the ranks", 30)
        launcher.signal(signal.SIGKILL)
        launcher.end()
    until(lambda: sorted(os.listdir(where)) == ["0", "1"], "the end of the cgroups")


def test_a_place_that_is_gone_fails_the_start(monkeypatch):
    """As if the CPU had gone offline between the plan and the start."""
    from seams.prepare import Places

    real = Places.of
    monkeypatch.setattr(Places, "of", lambda *a: {**real(*a), "cpus": (100_000,)})
    for program in (placework.place, ["true"]):
        failed = failure_of(program, procession.StartFailed, nproc=2)
        assert "could not take its place (CPUs, limits)" in str(failed)


def options(mode="node", fall_back=False):
    """What torch's NumaOptions look like."""
    return SimpleNamespace(
        affinity_mode=SimpleNamespace(value=mode), should_fall_back_if_binding_fails=fall_back
    )


@pytest.mark.parametrize("kind", ["function", "program"])
def test_elastic_binds_ranks(kind, monkeypatch, tmp_path):
    monkeypatch.setattr(cpusets, "_cpus_of", lambda *given: [CPUS[given[3] % len(CPUS)]])
    entrypoint, args = (placework.place, ()) if kind == "function" else ("sh", ("-c", "nproc"))
    context = elastic.start_processes(
        "place", entrypoint, {0: args, 1: args}, {0: {}, 1: {}},
        DefaultLogsSpecs(str(tmp_path), elastic.Std.ALL), numa_options=options(),
    )  # fmt: skip
    result = context.wait()
    assert result is not None
    if kind == "function":
        cpus = [result.return_values[rank]["cpus"] for rank in (0, 1)]
        assert cpus == [[CPUS[0]], [CPUS[1 % len(CPUS)]]]
    else:
        until(lambda: Path(result.stdouts[0]).read_text() == "1\n", "a program on one CPU")
    context.close()


def test_elastic_falls_back_where_it_is_told_to(monkeypatch, caplog, tmp_path):
    def fail(*_):
        raise ValueError("no such node")

    monkeypatch.setattr(cpusets, "bind", fail)
    how = {"logs_specs": DefaultLogsSpecs(str(tmp_path))}
    with pytest.raises(SpecError, match="no such node"):
        elastic.start_processes("p", placework.place, {0: ()}, numa_options=options(), **how)
    context = elastic.start_processes(
        "p", placework.place, {0: ()}, numa_options=options(fall_back=True), **how
    )
    result = context.wait()
    assert result.return_values[0]["cpus"] == CPUS
    assert "ranks are not bound to CPUs: no such node" in caplog.text
    context.close()


TESTS = str(Path(__file__).parents[1])
TORCHS = """
from torch.numa.binding import AffinityMode, NumaOptions
from seams.elastic import placement_of
for mode in AffinityMode:
    if mode.value != "exclusive":
        assert placement_of(NumaOptions(mode), 2).numa == mode.value
"""


@pytest.mark.torch
def test_torchs_own_options(tmp_path):
    done = run_python("-c", TORCHS, timeout=50, env={**os.environ, "PYTHONPATH": TESTS})
    assert (done.returncode, done.stderr) == (0, "")
    specs = DefaultLogsSpecs(str(tmp_path))
    with pytest.raises(TypeError, match="NumaOptions"):
        elastic.start_processes("p", max, {0: ()}, {0: {}}, specs, numa_options=object())
