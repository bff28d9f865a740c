"""Where ranks run, by the command line; and what is said of OMP_NUM_THREADS."""

import os

import pytest
from commandline import Terminal, run

CPUS = sorted(os.sched_getaffinity(0))
EACH = max(1, len(CPUS) // 2)


def threads(count, of=None):
    of = of or f"{len(CPUS)} cores"
    said = f"OMP_NUM_THREADS={count} for each of 2 ranks ({of}; set it to choose)"
    return f"procession: {said} [P401]"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], threads(EACH)),
        pytest.param(
            ["--cpus-per-rank", "1"], threads(1, "the CPUs of each"),
            marks=pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs"),
        ),
    ],
)  # fmt: skip
def test_what_is_set_is_said_once_and_to_a_person(tmp_path, words, said):
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    shown = []
    for _ in range(2):
        with Terminal("run", "-n", 2, *words, "true", env=env) as terminal:
            assert terminal.end() == 0
            shown.append(terminal.lines)
    assert shown == [[said], []]
    done = run("-n", 2, *words, "sh", "-c", "echo $OMP_NUM_THREADS", env=env)
    again = run("-v", "-n", 2, *words, "true", env=env)
    assert (done.stderr, again.stderr) == ("", f"{said}\n")
    each = said.partition("=")[2].partition(" ")[0]
    assert sorted(done.stdout.splitlines()) == [f"[0] {each}", f"[1] {each}"]


@pytest.mark.parametrize(
    ("words", "env"),
    [
        (["-n", "1"], {}),
        (["-n", "2"], {"OMP_NUM_THREADS": "3"}),
        (["-n", "2", "-x", "OMP_NUM_THREADS=3"], {}),
        (["-n", "2", "--dry-run"], {}),
    ],
)
def test_nothing_is_said_of_what_is_not_set(words, env):
    done = run(*words, "true", env={**os.environ, **env})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_cpus_of_their_own():
    see = "import os; print(sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])"
    done = run("-n", 2, "--cpus-per-rank", 1, "python3", "-c", see)
    shown = sorted(line.partition("] ")[2] for line in done.stdout.splitlines())
    assert len(set(shown)) == 2
    assert all(line.endswith("] 1") and "," not in line for line in shown)


def test_a_limit_of_memory_and_which_it_is():
    done = run("--memory-limit", "300M", "python3", "-c", "bytearray(900 << 20)")
    assert done.returncode == 1
    first = done.stderr.splitlines()[0]
    assert first.startswith("procession: memory limit: 300M for each ")
    assert ("RLIMIT_DATA" in first) != ("cgroup of its own" in first)
