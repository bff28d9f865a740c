"""The report, word for word."""

import pytest

from seams.explain import (
    FOLD_ABOVE,
    format_report,
    headline,
    headline_of,
    report_of,
)
from seams.rules import Phase
from seams.values import Exit, GroupEnd, Outcome, RankEnd

T0 = 10_000_000_000  # when the ranks were started
TRACEBACK = """\
Traceback (most recent call last):
  File "train.py", line 7, in step
    raise ValueError("bad batch")
ValueError: bad batch
"""


def end(rank, outcome, seconds=2.35, **facts):
    """Make the end of a rank that ran for some seconds."""
    happened = T0 + round(seconds * 1e9)
    known = {"pid": 100 + rank, "started_at": T0, "happened_at": happened, "seconds": seconds}
    return RankEnd(rank, outcome=outcome, **{**known, **facts})


def raised(rank=2, **facts):
    known = {"exit": Exit(code=1), "type_name": "ValueError", "message": "bad batch"}
    return end(rank, Outcome.RAISED, **{**known, "traceback": TRACEBACK, **facts})


def killed(rank=2, number=9, core=False, **facts):
    return end(rank, Outcome.SIGNALLED, exit=Exit(signal=number, core=core), **facts)


def report(*failures, nproc=4, **group):
    return format_report(GroupEnd(name="train", nproc=nproc, failures=failures, **group))


def test_an_exception():
    failure = raised(peak_memory=11_800_000_000, cpu_seconds=1.9, stderr_log="/runs/2/stderr.log")
    ended = (
        killed(0, 15, seconds=2.4),
        end(1, Outcome.EXITED, seconds=2.36, exit=Exit(code=0)),
    )
    finished = (end(3, Outcome.RETURNED, seconds=1.0, exit=Exit(code=0)),)
    assert report(failure, ended=ended, finished=finished, run_dir="/runs") == (
        """\
train failed: rank 2 of 4 (pid 102) raised ValueError: bad batch after 2.35 s [P101]
  exit code 1, peak memory 11.8 GB, CPU 1.90 s

  Traceback (most recent call last):
    File "train.py", line 7, in step
      raise ValueError("bad batch")
  ValueError: bad batch

  full log: /runs/2/stderr.log

ended by the group:
  rank 0 (pid 100) was ended by SIGTERM, 50.0 ms later
  rank 1 (pid 101) exited with code 0, 10.0 ms later

finished:
  rank 3 (pid 103) returned after 1.00 s

run directory: /runs"""
    )


def test_sigkill_and_memory():
    who = "rank 2 of 4 (pid 102) was killed by SIGKILL after 2.35 s"
    assert headline(killed(), 4) == who
    assert headline(killed(out_of_memory=True), 4) == f"{who}, likely out of memory"
    assert headline(killed(out_of_memory=True, peak_memory=2_500_000), 4) == (
        f"{who}, likely out of memory (peak 2.5 MB)"
    )
    assert headline(killed(out_of_memory=False), 4) == (
        f"{who} (the kernel reports no out-of-memory kill)"
    )
    assert "memory" not in headline(killed(number=15, out_of_memory=False), 4)


def test_an_exit_code():
    failure = end(0, Outcome.EXITED, exit=Exit(code=3), stderr_tail=("no such file", "bye"))
    assert report(failure, nproc=2) == (
        """\
train failed: rank 0 of 2 (pid 100) exited with code 3 after 2.35 s [P102]

  last lines of stderr:
    no such file
    bye"""
    )


def test_a_start_that_failed():
    failure = RankEnd(
        1,
        None,
        Outcome.NOT_STARTED,
        message="could not start its program: No such file or directory: '/x'",
        happened_at=T0,
        note="check the name of the program",
    )
    ended = (killed(0, 15), RankEnd(2, None, Outcome.CANCELLED))
    assert report(failure, nproc=3, ended=ended) == (
        """\
train failed: rank 1 of 3 could not start its program: No such file or directory: '/x' [P106]
  check the name of the program

ended by the group:
  rank 0 (pid 100) was ended by SIGTERM, 2.35 s later

not started:
  rank 2 had no process yet"""
    )


def test_the_other_outcomes():
    assert "was interrupted (KeyboardInterrupt)" in headline(end(0, Outcome.INTERRUPTED), 1)
    assert "vanished: its exit status is not known" in headline(end(0, Outcome.UNKNOWN), 1)
    assert "could not be ended" in headline(end(0, Outcome.LOST), 1)


def test_simultaneous_failures_are_all_shown():
    text = report(
        raised(1, seconds=2.0),
        killed(0, 11, seconds=2.0009),
        end(3, Outcome.EXITED, seconds=2.0011, exit=Exit(code=7)),
    )
    assert text == (
        """\
train failed: rank 1 of 4 (pid 101) raised ValueError: bad batch after 2.00 s [P101]
  exit code 1

  Traceback (most recent call last):
    File "train.py", line 7, in step
      raise ValueError("bad batch")
  ValueError: bad batch

simultaneous failures (order unknown):

rank 0 of 4 (pid 100) was killed by SIGSEGV after 2.00 s
  SIGSEGV (signal 11)

failed by themselves, later:
  rank 3 (pid 103) exited with code 7, 1.1 ms later"""
    )


def test_a_rank_that_could_not_be_ended_is_not_called_simultaneous():
    """Of a lost rank it is not known when it will end."""
    lost = RankEnd(1, 101, Outcome.LOST, started_at=T0, happened_at=0)
    text = report(raised(0), lost, nproc=2)
    assert "simultaneous" not in text and "same time" not in text
    assert "rank 1 (pid 101) could not be ended" in text


def test_many_ranks_are_folded():
    ended = tuple(
        killed(r, 9 if r % 100 == 7 else 15, seconds=3.0 + r / 1000) for r in range(1, 512)
    )
    finished = (end(512, Outcome.RETURNED, seconds=1.0),)
    text = report(raised(0), nproc=513, ended=ended, finished=finished)
    assert text.endswith(
        """
ended by the group:
  ranks 1-6,8-106,108-206,208-306,308-406,408-506,508-511 were ended by SIGTERM
  ranks 7,107,207,307,407,507 were ended by SIGKILL

finished:
  rank 512 (pid 612) returned after 1.00 s"""
    )


def folded(*odd, others=FOLD_ABOVE, title="ended by the group"):
    """Give the lines of the ranks that a report puts together, those of odd ends first."""
    ended = (*odd, *(killed(100 + r, 15, seconds=3.0) for r in range(others)))
    text = report(raised(0), nproc=200, ended=ended)
    return text.partition(f"\n{title}:\n")[2].splitlines()[: 2 if odd else 1]


def test_what_many_ranks_said_stays_as_they_said_it():
    odd = [raised(r, message="it was not its file") for r in (7, 9)]
    assert folded(*odd)[0] == "  ranks 7,9 raised ValueError: it was not its file"


@pytest.mark.parametrize(
    ("tail", "left"),
    [
        (("ValueError: bad batch",), ()),
        (("ValueError: bad batch", "epoch 2"), ("epoch 2",)),
        (("epoch 1", "ValueError: bad batch"), ("epoch 1", "ValueError: bad batch")),
        (tuple(f"[rank3]: {line}" for line in TRACEBACK.splitlines()), ()),
        (("[rank12]: ValueError: bad batch", "bye"), ("bye",)),
        (("[cpu0]: ValueError: bad batch",), ("[cpu0]: ValueError: bad batch",)),
        (("[rank?]: ValueError: bad batch",), ("[rank?]: ValueError: bad batch",)),
        (("[rank3] ValueError: bad batch",), ("[rank3] ValueError: bad batch",)),
    ],
)
def test_what_a_tail_has_beside_the_traceback(tail, left):
    lines = report(raised(stderr_tail=tail, traceback=f"{TRACEBACK}\n")).splitlines()
    at = lines.index("  ValueError: bad batch") + 1
    assert lines[at:] == (
        ["", "  last lines of stderr:", *(f"    {x}" for x in left)] if left else []
    )


@pytest.mark.parametrize("exit", [Exit(signal=9), Exit()])
def test_a_rank_that_hung_and_where_the_others_were(exit):
    hung = end(2, Outcome.HUNG, exit=exit, message="no beat\nfor 30 s")
    stacks = ("rank 2 is in load (a.py:4)", "3 ranks [0-1,3] wait in barrier (a.py:9)")
    first = "train failed: rank 2 of 4 (pid 102) hung: no beat for 30 s [P105]\n"
    then = "  it then ended: SIGKILL (signal 9)\n" if exit.signal else ""
    assert report(hung, stacks=stacks, stacks_file="/r/stacks.txt") == (
        f"""\
{first}{then}
when it hung, the ranks were:
  rank 2 is in load (a.py:4)
  3 ranks [0-1,3] wait in barrier (a.py:9)
  all stacks: /r/stacks.txt"""
    )


def test_how_ranks_end_that_have_not_failed():
    ended = (
        killed(0, 11, sent=(15,)),
        killed(1, 15, sent=(15, 9)),
        end(3, Outcome.RETURNED, exit=Exit(signal=15)),
        end(4, Outcome.NOT_STARTED, message="could not fork"),
    )
    finished = (end(5, Outcome.RETURNED, exit=Exit(signal=15)),)
    assert report(killed(number=11), nproc=6, ended=ended, finished=finished).endswith(
        """

ended by the group:
  rank 0 (pid 100) was killed by SIGSEGV while it was being ended after 2.35 s
  rank 1 (pid 101) was ended by SIGTERM after 2.35 s
  rank 3 (pid 103) returned after 2.35 s

not started:
  rank 4 (pid 104) could not fork

finished:
  rank 5 (pid 105) had finished, and was ended by SIGTERM as it exited after 2.35 s"""
    )


def test_notes_logs_and_attempts():
    failure = killed(number=11, stderr_log="/r/err", stdout_log="/r/out")
    text = report(failure, attempt=2, notes=("the console was slow", "another"), run_dir="/r")
    assert text.endswith(
        """
  full log: /r/err  /r/out

this was attempt 2, after 2 restarts

note: the console was slow
note: another

run directory: /r"""
    )


@pytest.mark.parametrize(
    ("attempt", "regrouped", "said"),
    [
        (1, 1, "this was attempt 1, after 1 change of machines"),
        (3, 2, "this was attempt 3, after 1 restart and 2 changes of machines"),
    ],
)
def test_a_machine_that_came_or_went_is_no_restart(attempt, regrouped, said):
    assert report(raised(), attempt=attempt, regrouped=regrouped).endswith(said)


def test_a_long_message_is_cut_in_the_headline_only():
    text = "x" * 1000
    failure = raised(message=text, traceback=f"Traceback\nValueError: {text}\n")
    first, *_, last = report(failure).splitlines()
    assert len(first) < 400
    assert "..." in first
    assert last.endswith(text)


def test_what_ranks_raised_as_they_were_stopped():
    ended = (
        raised(0, message="it was full"),
        killed(1, 15),
        raised(2, message="it was full"),
        end(3, Outcome.EXITED, exit=Exit(code=3)),
    )
    finished = (end(4, Outcome.EXITED, exit=Exit(code=0)),)
    group = GroupEnd("train", 5, ended=ended, finished=finished, first=10)
    assert report_of(Phase.STOPPED, group, "Ctrl-C") == (
        """\
train was stopped: 5 ranks, 2.35 s
  stopped by Ctrl-C
  ranks 10,12 raised ValueError: it was full
    Traceback (most recent call last):
      File "train.py", line 7, in step
        raise ValueError("bad batch")
    ValueError: bad batch
  rank 11 was ended by SIGTERM
  rank 13 exited with code 3
  rank 14 exited with code 0"""
    )


def test_ranks_of_several_machines_have_their_numbers_in_the_job():
    text = report(raised(1), nproc=2, ended=(killed(0, 15),), node=3, nodes=4, first=6, world=8)
    assert text.startswith("train failed on node 3 of 4: rank 7 of 8 (pid 101) raised ValueError")
    assert "\n  rank 6 (pid 100) was ended by SIGTERM" in text
    group = GroupEnd("x", 2, failures=(raised(1), killed(0)), node=1, nodes=2, first=2, world=4)
    said = "rank 3 of 4 (pid 101) raised ValueError: bad batch after 2.35 s [P101]"
    assert headline_of(group) == said
    assert format_report(group).startswith("x failed on node 1 of 2: rank 3 of 4")


def test_the_message_of_a_worker_of_a_data_loader():
    caught = "Caught ValueError in DataLoader worker process 0."
    message = (
        f"{caught}\nOriginal Traceback (most recent call last):\n  ...\nValueError: sample 7\n"
    )
    first = report(raised(message=message)).splitlines()[0]
    assert f"raised ValueError: {caught[:-1]}: ValueError: sample 7 after" in first


def test_what_the_console_did_not_show():
    errors = ("RuntimeError: closed", "KeyboardInterrupt"), ("KeyboardInterrupt", "A", "B")
    ended = tuple(
        killed(rank, 15, unshown=lines, unshown_errors=errors[rank])
        for rank, lines in enumerate((1, 53))
    )
    said = (
        "wrote 54 lines (RuntimeError: closed, KeyboardInterrupt, A, ...): --all-output shows them"
    )
    text = report(raised(2), ended=ended, first=4, world=8)
    assert text.endswith(f"\n\nafter that, ranks 4-5 {said}")
    stopped = GroupEnd("train", 2, ended=(*ended[:1], ended[1].__replace__(stderr_log="/runs/err")))
    assert f"\n  after that, ranks 0-1 {said}, their logs keep them\n" in report_of(
        Phase.STOPPED, stopped
    )
    one = (killed(0, 15, unshown=1),)
    assert report(raised(), ended=one).endswith(
        "\n\nafter that, rank 0 wrote 1 line: --all-output shows it"
    )
