"""Who takes the machine away, and how the time that is left is divided."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seams.cli import divided, read_preemption, seconds_left
from seams.values import SpecError

USR1, TERM = int(signal.SIGUSR1), int(signal.SIGTERM)


@pytest.mark.parametrize(
    ("text", "notices"),
    [
        ("slurm", {USR1: 60, TERM: 30}),
        ("slurm:120", {USR1: 120, TERM: 30}),
        ("kubernetes", {TERM: 30}),
        ("kubernetes:300", {TERM: 300}),
        ("SIGUSR2:90", {int(signal.SIGUSR2): 90}),
        ("SIGUSR2:1.5", {int(signal.SIGUSR2): 1.5}),
    ],
)
def test_who_is_known(text, notices):
    assert read_preemption(text, "--preempt") == notices


@pytest.mark.parametrize(
    "text",
    ["", "pbs", "SIGUSR1", "SIGKILL:3", "SIGSTOP:3", "slurm:", "slurm:x", "slurm:0", "SIG:3"],
)
def test_who_is_not(text):
    with pytest.raises(SpecError, match=r"^--preempt"):
        read_preemption(text, "--preempt")


@given(left=st.floats(1, 1e6), grace=st.floats(0, 1e3))
def test_notice_and_grace_are_over_before_the_time_is(left, grace):
    notice, own = divided(left, grace)
    assert 0 <= own <= grace
    assert notice >= own
    assert left * 0.49 <= notice + own < left


def test_a_pods_thirty_seconds():
    assert divided(30, 30) == (20.25, 6.75)


def test_slurm_says_when_the_job_ends(monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1000.0)
    monkeypatch.setenv("SLURM_JOB_END_TIME", "1090")
    assert seconds_left(120, USR1) == 90
    assert seconds_left(60, USR1) == 60
    assert seconds_left(30, TERM) == 30
    monkeypatch.setenv("SLURM_JOB_END_TIME", "900")
    assert seconds_left(120, USR1) == 120
    monkeypatch.setenv("SLURM_JOB_END_TIME", "soon")
    assert seconds_left(120, USR1) == 120
