"""A command line as a batch job, sent from outside."""

import re
import signal
import sys

import pytest

from conftest import until
from seams.jobs import EngineError
from seams.slurm import submit
from support import Launcher, write

SUBMIT = """
import sys
from procession.engines.slurm.submit import submit
sys.exit(submit(sys.argv[1:], nodes=2, grace=20, arguments=["--output=out.%j"]))
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def says():
    return []


def test_the_output_and_the_exit_code_are_the_jobs(slurm, here, capfdbinary, says):
    words = ["sh", "-c", 'echo "$1 $SLURM_JOB_NUM_NODES"; exit 3', "sh", 'it\'s "quoted" $HOME']
    code = submit(words, nodes=2, partition="main", time="5", say=says.append)
    assert code == 3
    assert capfdbinary.readouterr().out == b'it\'s "quoted" $HOME 2\n'
    job = re.match(r"job (\d+); its output is in ", says[0])[1]
    facts = slurm.job(job)
    assert (facts["NumNodes"], facts["TimeLimit"], facts["Requeue"]) == ("2", "00:05:00", "0")
    assert facts["StdOut"] == str(here / f"slurm-{job}.out")


def test_a_good_end(slurm, here, says):
    assert submit(["true"], say=says.append) == 0


def test_output_comes_as_it_is_written(slurm, here):
    source = "import os, time\nprint('first', flush=True)\n"
    source += "while not os.path.exists('go'): time.sleep(0.02)\nprint('second')\n"
    script = write(here / "job.py", source)
    with Launcher(write(here / "submit.py", SUBMIT), sys.executable, script) as sent:
        sent.said("first")
        assert "second" not in sent.lines
        write(here / "go", "")
        assert sent.end() == 0
    assert sent.lines[-1] == "second"


def test_detached_it_says_where_to_look(slurm, here, says):
    assert submit(["sh", "-c", "echo done"], detach=True, say=says.append) == 0
    job = re.match(r"job (\d+); its output is in (.*)", says[0])
    slurm.wait_job(job[1], "COMPLETED")
    with open(job[2]) as f:
        assert f.read() == "done\n"


def interrupted(here, source, *signals):
    script = write(here / "job.py", "import signal, sys, time\n" + source)
    with Launcher(write(here / "submit.py", SUBMIT), sys.executable, script) as sent:
        sent.said("ready")
        until(lambda: any("runs on" in line for line in sent.lines), "that it is known to run")
        for number, answer in signals:
            sent.signal(number)
            until(lambda a=answer: any(a in line for line in sent.lines), answer, 20)
        return sent.end(30), sent.lines


READY = "print('ready', flush=True)\ntime.sleep(60)\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_lets_the_command_end_in_order(slurm, here, number):
    source = "signal.signal(signal.SIGTERM, lambda *_: (print('saved'), sys.exit(7)))\n" + READY
    code, lines = interrupted(here, source, (number, "ending job"))
    assert code == 7, lines
    assert lines[-1] == "saved"


def test_a_second_interrupt_cancels(slurm, here):
    source = "signal.signal(signal.SIGTERM, lambda *_: print('no', flush=True))\n" + READY
    code, lines = interrupted(
        here, source, (signal.SIGINT, "ending job"), (signal.SIGINT, "cancelling job")
    )
    assert code > 128, lines  # ended by a signal
    assert any(line.endswith(": cancelled") for line in lines)


def test_an_interrupt_cancels_a_job_that_waits(slurm, here):
    slurm.run("salloc", "--no-shell", "-N4", "--exclusive")
    script = write(here / "submit.py", SUBMIT)
    with Launcher(script, "true") as sent:
        until(lambda: any("is waiting: " in line for line in sent.lines), "the wait")
        sent.signal(signal.SIGINT)
        assert sent.end() == 130, sent.lines
    assert sent.lines[-1].endswith(": cancelled")
    assert "no output can be seen" not in "\n".join(sent.lines)  # there is no first node


def test_sbatch_says_what_is_wrong(slurm, here):
    with pytest.raises(EngineError, match=r"sbatch ended with an error: .*[Ii]nvalid partition"):
        submit(["true"], partition="nosuch")


def test_the_time_limit_is_told(slurm, here, says):
    """Its signal comes to the command alone, as sent before the limit."""
    source = "import signal, time\n"
    source += "signal.signal(signal.SIGUSR1, lambda *_: exit(5))\n" + READY
    script = write(here / "job.py", source)
    # Slurm looks every 30 s or so: a signal that is due at the start comes within that.
    code = submit(
        [sys.executable, str(script)], time="1", arguments=["--signal=B:USR1@60"], say=says.append
    )
    assert code == 5, says
