"""The stacks of real ranks, in whatever state they are: asked for, and when their group failed."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import stackwork

import procession
from procession import Phase
from seams.agent import beforestop, stacks
from seams.explain import merge, outside
from support import QUICK, failure_of, until

KINDS = {
    "sleep": "is in sleep (stackwork.py:N)",
    "beat": "is in beat (stackwork.py:N)",
    "wait": "waits in wait (stackwork.py:N)",
    "hold_the_lock": "is in match (stackwork.py:N)",
    "stop": "is stopped (as by SIGSTOP, or by a debugger)",
    "block": "has its signals blocked",
    "handle": "sleeps (in hrtimer_nanosleep)",
    "ignore": "sleeps (in hrtimer_nanosleep)",
    "become": "sleeps (in hrtimer_nanosleep)",
    "pause": "waits for a signal",
    "write_garbage": "is in sleep (stackwork.py:N)",
    "close_all": "sleeps (in hrtimer_nanosleep)",
    "exhaust": "is in sleep (stackwork.py:N)",
    "fork": "is in fork (stackwork.py:N)",
    "threads": "waits in wait (stackwork.py:N)",
    "deep": "is in sleep (stackwork.py:N)",
    "child": "waits in run (stackwork.py:N)",
}


def plain(said):
    import re

    return re.sub(r"\(in \w*sleep\w*\)", "(in hrtimer_nanosleep)", re.sub(r":\d+\)", ":N)", said))


def settled(group, rank, kind, patience=5.0):
    """Wait until a rank is where its work leads it."""

    def look():
        (found,) = [s for s in group.stacks(patience) if s["rank"] == rank]
        said = merge.said_of(merge.from_dict(found)).partition("; ")[0]
        return found if plain(said) == KINDS[kind] else None

    return until(look, f"{kind} at its place", 30)


@pytest.fixture
def no_spy(monkeypatch):
    monkeypatch.setattr(outside, "find_pyspy", lambda: None)


@pytest.mark.parametrize("kind", KINDS)
def test_asked_for(kind, no_spy):
    with procession.start(stackwork.do, args=([kind],), nproc=1, stop=QUICK) as group:
        patience = 5.0 if "(stackwork" in KINDS[kind] else 0.5  # the others do not answer
        found = settled(group, 0, kind, patience)
        assert found["pid"] == group.pids()[0]
        assert group.exit_of(0) is None
        again = group.stacks(patience)[0]  # it goes on as before, and answers again
        assert bool(again["frames"]) == bool(found["frames"])


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_every_start_method(method):
    options = {"nproc": 2, "stop": QUICK, "start_method": method}
    with procession.start(stackwork.do, args=(["sleep", "wait"],), **options) as group:
        settled(group, 0, "sleep")
        found = settled(group, 1, "wait")
        file, line, function = found["frames"][-1]
        assert file == stackwork.__file__
        assert line > 1
        assert function == "do"


def test_threads_that_begin_and_end_meanwhile(no_spy):
    """faulthandler's dump of all threads crashed nearly each such rank.

    The main thread joins none of them: a signal that comes then may crash Python 3.13.0 itself.
    """

    def begin_and_end():
        while True:
            thread = threading.Thread(target=time.sleep, args=(0.0,))
            thread.start()
            thread.join()

    def work():
        threading.Thread(target=begin_and_end, daemon=True).start()
        while True:
            time.sleep(0.001)

    with procession.start(work, nproc=2, stop=QUICK) as group:
        until(lambda: group.look()["state"] == "RUNNING")
        for _ in range(100):
            assert len(group.stacks(5.0)) == 2
        assert [group.exit_of(rank) for rank in range(2)] == [None, None]


def test_a_rank_that_closed_its_descriptors_has_no_harm_done(tmp_path, no_spy):
    """What has the number of its memory file then is not written to."""
    path = tmp_path / "its"

    def work():
        os.closerange(3, 1000)
        fd = os.open(path, os.O_CREAT | os.O_RDWR)
        for number in range(40, 100):
            os.dup2(fd, number)
        time.sleep(1000)

    with procession.start(work, nproc=1, stop=QUICK) as group:
        until(lambda: path.exists() and group.look()["ranks"][0]["state"] == "RUNNING")
        until(lambda: len(os.listdir(f"/proc/{group.pids()[0]}/fd")) > 60)
        (found,) = group.stacks()
        assert not found["frames"]
        assert path.read_bytes() == b""


def test_a_rank_that_becomes_another_program_as_it_is_asked(tmp_path, monkeypatch, no_spy):
    """The signal comes when nobody handles it any more: the program must not notice."""
    go_on, ask = tmp_path / "go on", stacks._send

    def work():
        while not go_on.exists():
            time.sleep(0.001)
        os.execvp("sleep", ["sleep", "1000"])

    def late(asked, number):  # in the agent: it is a fork of this process
        if (tmp_path / "now").exists():
            go_on.touch()
            pid = (
                Path(f"/proc/self/fdinfo/{asked.pidfd}").read_text().partition("Pid:")[2].split()[0]
            )
            until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
        return ask(asked, number)

    monkeypatch.setattr(stacks, "_send", late)
    with procession.start(work, nproc=1, start_method="fork") as group:
        until(lambda: group.stacks(5.0)[0]["frames"])
        (tmp_path / "now").touch()
        group.stacks(0.2)
        until(go_on.exists)
        os.kill(group.pids()[0], signal.SIGKILL)
        with pytest.raises(procession.GroupFailed) as caught:
            group.wait()
    assert caught.value.cause.exit.signal == signal.SIGKILL  # and not what came before


def test_a_group_that_is_over_has_no_stacks():
    group = procession.start(stackwork.nothing, nproc=2)
    group.wait()
    assert group.stacks() == []


def test_who_is_told_of_events_cannot_ask():
    raised = []

    def told(_):
        try:
            group.stacks()
        except procession.ProcessionError as e:
            raised.append(str(e))

    with procession.start(stackwork.do, args=(["sleep"],), nproc=1, stop=QUICK) as group:
        group.subscribe(told)
        until(lambda: raised)
    assert "cannot wait for its stacks" in raised[0]


# -- when a group failed


def failure(names, tmp_path, **options):
    """Let the last rank fail when the others are at their places."""
    names = [*names, "fail_when_running"]

    def heard(event):  # the launcher knows then that all have begun
        if event.kind == "running":
            (tmp_path / f"attempt_{event.attempt}_running").touch()

    options = {"stop": QUICK, "on_event": heard, **options}
    args = (names, str(tmp_path))
    return failure_of(stackwork.do, args=args, nproc=len(names), **options)


def test_the_others_are_told_of(tmp_path):
    e = failure(["sleep", "wait", "wait", "deep"], tmp_path)
    assert e.cause.rank == 4
    (block,) = [b for b in str(e).split("\n\n") if b.startswith("when it failed")]
    assert [plain(line) for line in block.splitlines()] == [
        "when it failed, the others were:",
        "  2 ranks [0,3] are in sleep (stackwork.py:N)",
        "  2 ranks [1-2] wait in wait (stackwork.py:N)",
    ]
    assert len(e.ended) == 4
    assert all(end.exit.signal == signal.SIGTERM for end in e.ended)


def test_without_stacks(tmp_path):
    e = failure(["sleep"], tmp_path, hang=procession.Hang(stacks=False))
    assert "others were" not in str(e)
    assert e.end.stacks == ()


@pytest.mark.parametrize(
    "kind", ["sleep", "hold_the_lock", "stop", "block", "handle", "ignore", "close_all", "exhaust"]
)
def test_every_kind_of_rank_is_ended_as_ever(kind, tmp_path):
    """By the stop signal or SIGKILL; none of ours wakes, ends or harms it before."""
    e = failure([kind, "wait"], tmp_path)
    assert e.cause.rank == 2
    (end,) = [end for end in e.ended if end.rank == 0]
    assert end.exit.signal == (signal.SIGKILL if kind == "block" else signal.SIGTERM)
    assert any("rank 0 " in line or "[0-" in line for line in e.end.stacks), e.end.stacks


def test_whole_stacks_are_kept(tmp_path):
    (tmp_path / "a").mkdir()
    logs = procession.Logs(dir=tmp_path / "runs")
    e = failure(["threads", "sleep"], tmp_path / "a", logs=logs)
    path = e.end.stacks_file
    assert path == os.path.join(e.end.run_dir, "attempt_0", "stacks.txt")
    assert f"all stacks: {path}" in str(e)
    with open(path) as f:
        text = f.read()
    assert text.count("(most recent call first)") == 2
    assert "/procession/worker/bootstrap.py" in text
    assert "fail" not in text


@pytest.mark.parametrize("kill", [False, True])
def test_a_stop_ends_the_wait_for_stacks(tmp_path, monkeypatch, kill):
    """Also when nobody answers: it does not take the whole time that stacks may take."""
    monkeypatch.setattr(beforestop, "STACK_SECONDS", 3600.0)  # in the agent, a fork of this one
    args = (["handle", "fail"], str(tmp_path))
    group = procession.start(stackwork.do, args=args, nproc=2, stop=QUICK, start_method="fork")
    until(lambda: any(e.kind == "reported" for e in group.driver.journal.events))
    assert group.exit_of(0) is None
    (group.kill if kill else group.stop)()
    with pytest.raises(procession.GroupFailed) as caught:
        group.wait(20)
    assert [end.rank for end in caught.value.failures] == [1]
    assert [end.rank for end in caught.value.ended] == [0]


def deaf_or_failing(where):
    """Rank 0 gives no stack, and rank 1 fails when it is told to."""
    place = Path(where)
    if os.environ["RANK"] == "0":
        for number in (stackwork.SIGNAL, stackwork.GENTLE):
            signal.signal(number, lambda *_: None)
        (place / "deaf").touch()
        time.sleep(1000)
    until((place / "fail").exists, patience=100)
    raise ValueError(1)


def test_who_waits_for_stacks_does_not_hold_up_the_end(tmp_path):
    """Of two that have asked, the second one has not had its turn when the group fails."""
    args = (str(tmp_path),)
    with procession.start(deaf_or_failing, args=args, nproc=2, stop=QUICK) as group:
        until((tmp_path / "deaf").exists)
        asked = [threading.Thread(target=lambda: group.stacks(60.0)) for _ in range(2)]
        for each in asked:
            each.start()
        until(lambda: len(group.driver.machine.last_look._asked) == 2)
        (tmp_path / "fail").touch()
        with pytest.raises(procession.GroupFailed):
            group.wait(20)
        for each in asked:
            each.join(20)
            assert not each.is_alive()


def test_commands_are_not_waited_for(tmp_path):
    e = failure_of(["sh", "-c", 'test "$RANK" = 1 || exec sleep 100; exit 3'], nproc=2)
    assert e.end.stacks == ()
    assert e.cause.rank == 1


def test_a_rank_that_runs_lives_on_however_often_it_is_asked():
    """Between two frames of an interpreter, a look at them from C would end it."""
    with procession.start(stackwork.do, args=(["compare"],), nproc=1, stop=QUICK) as group:
        until(lambda: "compare" in str(group.stacks(5.0)))
        assert all(group.stacks(5.0)[0]["frames"] for _ in range(150))


def test_a_rank_that_cannot_answer_gently_is_not_asked():
    """As one that has just begun, it runs Python code, where a look from C would end it."""
    with procession.start(stackwork.do, args=(["compare_deaf"],), nproc=1, stop=QUICK) as group:
        until(lambda: group.look()["ranks"][0]["beats"])
        for _ in range(40):
            group.stacks(5.0)
        assert group.state is Phase.RUNNING
