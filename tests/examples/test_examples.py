"""Every script in examples/ does what its first lines promise."""

import importlib.util
import re
from pathlib import Path

import pytest

from support import run_procession, run_python

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def needs(*modules):
    missing = [m for m in modules if importlib.util.find_spec(m) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def run(*words):
    return run_procession("run", *words, timeout=55)


def by_rank(stdout, nproc):
    found = {rank: [] for rank in range(nproc)}
    for line in stdout.splitlines():
        prefix, _, text = line.partition("] ")
        found[int(prefix.lstrip("["))].append(text)
    return found


@needs("numpy", "sklearn")
@pytest.mark.parametrize("nproc", [1, 2, 4])
def test_digits(nproc):
    done = run("-n", nproc, EXAMPLES / "digits.py")
    assert done.returncode == 0, done.stderr
    said = by_rank(done.stdout, nproc) if nproc > 1 else {0: done.stdout.splitlines()}
    checksums = set()
    for lines in said.values():
        losses = [re.fullmatch(r"epoch +(\d+)  loss (\d\.\d+)", line) for line in lines[:-1]]
        assert [int(m[1]) for m in losses] == [1, 5, 10, 15, 20, 25, 30]
        assert float(losses[-1][2]) < 0.1 < float(losses[0][2])
        accuracy, checksum = re.fullmatch(
            r"accuracy (0\.\d+)  weights ([0-9a-f]{16})", lines[-1]
        ).groups()
        assert float(accuracy) >= 0.93
        checksums.add(checksum)
    assert len(checksums) == 1


@needs("numpy", "sklearn")
def test_digits_with_a_rank_that_fails():
    done = run("-n", 4, EXAMPLES / "digits.py", "--fail-rank", "2")
    assert done.returncode == 1
    report = done.stderr[done.stderr.index("digits.py failed: ") :]
    assert re.match(
        r"digits\.py failed: rank 2 of 4 \(pid \d+\) raised ValueError: corrupt batch: ", report
    )
    assert "in load_batch" in report
    # The others wait for rank 2. Whether they are ended or find its connections closed: it is
    # the cause, and only it has a traceback there.
    assert report.count("Traceback") == 1
    for rank in (0, 1, 3):
        assert re.search(rf"^  rank {rank} \(pid \d+\) ", report, re.MULTILINE)


@pytest.mark.torch
@pytest.mark.parametrize("nproc", [pytest.param(2, marks=pytest.mark.long), 4])
def test_torch_ddp(nproc, tmp_path, monkeypatch):
    # Who has installed nothing but torch has no numpy.
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('no numpy here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = run("-n", nproc, EXAMPLES / "torch_ddp.py")
    assert done.returncode == 0, done.stderr
    said = by_rank(done.stdout, nproc)
    checksums = set()
    for (line,) in said.values():
        checksums.add(re.fullmatch(r"loss \d+\.\d+  parameters ([0-9a-f]{16})", line)[1])
    assert len(checksums) == 1


@needs("jax", "numpy")
@pytest.mark.jax
def test_jax_psum():
    done = run("-n", 4, EXAMPLES / "jax_psum.py")
    assert done.returncode == 0, done.stderr
    # Some versions of gloo tell what they are connected with.
    assert [lines[-1] for lines in by_rank(done.stdout, 4).values()] == ["psum 10.0"] * 4


def test_return_values():
    done = run_python(EXAMPLES / "return_values.py")
    assert (done.returncode, done.stderr) == (0, "")
    values, pi = done.stdout.splitlines()
    by_rank = [float(v) for v in re.fullmatch(r"by rank: \[(.+)\]", values)[1].split(", ")]
    assert len(by_rank) == 4
    assert float(pi.removeprefix("pi is about ")) == pytest.approx(3.14159, abs=0.03)


def test_training():
    words = ("--steps", 20, "--seconds", 0.001)
    done = run("-n", 2, EXAMPLES / "training.py", *words)
    assert done.returncode == 0, done.stderr
    for lines in by_rank(done.stdout, 2).values():
        assert len(lines) == 10
        assert all(re.fullmatch(r"step \d+: loss \d\.\d{3}", line) for line in lines)
    done = run("-n", 2, EXAMPLES / "training.py", *words, "--slow", 0, "--fail", 1)
    assert done.returncode == 1
    assert "rank 1 of 2" in done.stderr
    assert "the loss is no number" in done.stderr
