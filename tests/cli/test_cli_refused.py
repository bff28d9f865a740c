"""Command lines that are refused: one line that says what is wrong, code 2, nothing started."""

import os
import shlex

import pytest

from seams.cli import main, where
from support import run_python, uncoded, write

OURS = ("PROCESSION_", "PET_", "SLURM_", "OMPI_", "PMI_", "MASTER_")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Be in a directory with a bit of everything, without variables that set options."""
    write(tmp_path / "good.py", "print('it ran')")
    write(tmp_path / "greet-here", "#!/bin/sh\necho hello\n").chmod(0o755)
    write(tmp_path / "package" / "__init__.py", "raise SystemExit('nothing is imported')")
    (tmp_path / "a file").touch()
    (tmp_path / "book.ipynb").touch()
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith(OURS) and n != "PROCESSION_TEST"]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def refusal(here, capfd):
    """Give what reads a command line in this process; gives what it said in one line."""

    def read(call, words):
        before = sorted(here.rglob("*"))
        with pytest.raises(SystemExit) as end:
            call(shlex.split(words))
        out, said = capfd.readouterr()
        assert (end.value.code, out, said.count("\n")) == (2, "", 1), said
        assert sorted(here.rglob("*")) == before
        return uncoded(said.rstrip("\n"))

    return read


@pytest.fixture
def refused(refusal):
    """Give what a run is refused with."""

    def read(words):
        name, _, said = refusal(where.main, words).partition(" error: ")
        assert name == "procession run:"
        return said

    return read


WRONG = [
    # What is to be run.
    ("", "PROGRAM is missing; type procession run -n 4 train.py"),
    ("--max-restarts good.py", "it was taken for the value of the option before it"),
    ("book.ipynb", "'book.ipynb' is a notebook"),
    ("missing.py", "there is no script 'missing.py'"),
    ("no-such-program", "there is no script or program 'no-such-program' on the PATH"),
    ("package", "'package' is a directory without a __main__.py"),
    ("greet-here", "; for the one in this directory, write ./greet-here"),
    ("good", "; did you mean good.py?"),
    ("'echo hello'", "write a program and its arguments as words of their own"),
    ("-n 3 'part${local_rank}.py'", "there is no script 'part0.py'"),
    ("-m --run-path good.py", "cannot go together"),
    ("--run-path gone", "there is no script 'gone'"),
    # Modules.
    ("-m no_such_module_here", "there is no module 'no_such_module_here' on the path"),
    ("-m good.py", "-m is for modules; to run the file good.py, leave out -m"),
    # Several programs.
    ("good.py : -n 0 good.py", "-n/--nproc-per-node must be a count"),
    ("good.py : -n 2 -t 3 good.py", "-t/--tee is for all programs: write it before the first"),
    # Options that there are not.
    ("--quux good.py", "there is no option '--quux'; see procession run --help"),
    ("--log-dri x good.py", "there is no option '--log-dri'; did you mean --log-dir?"),
    ("--nproc 2 good.py", "did you mean --nproc-per-node?"),
    ("--nporc 2 good.py", "did you mean --nproc-per-node?"),
    ("--warm 30 good.py", "Write --warm=30, in one word"),
    ("-n", "-n/--nproc-per-node needs a value: N"),
    ("--no-python=yes good.py", "--no-python takes no value"),
    ("-np 2 good.py", "not 'p'; for -np write -n"),
]
VALUES = [
    ("-n 0", "-n/--nproc-per-node must be a count of 1 or more, or auto, cpu, gpu, xpu, npu"),
    ("-n ٣", "not '٣'"),
    ("-x =1", "-x/--env must be NAME=VALUE"),
    ("-x RANK=7", "-x/--env: RANK is what each rank is told by its launcher"),
    ("--name 'a\nb'", "name"),
    # Output.
    ("-r 4", "-r/--redirects: not a choice of streams: '4'"),
    ("--stdin 9", "stdin: there is no rank 9; the ranks are 0 to 0"),
    ("--stdin x", "--stdin must be a count, 0 or more, not 'x'"),
    ("-n 2 --fold --prefix '{local_rank} '", "--fold needs a prefix with {rank} and without"),
    ("--prefix {nonsense}", "--prefix: '{nonsense}'"),
    ("--log-dir 'a file/b'", "--log-dir: 'a file' is not a directory"),
    ("--log-dir /proc/logs", "--log-dir '/proc/logs': cannot prepare the run"),
    ("--log-dir=", "--log-dir must name a directory"),
    ("--detach --stdin 0", "cannot go together"),
    ("--logs-specs nothing", "there is no entry point 'nothing' in torchrun.logs_specs"),
    *((f"--status {text}", f"--status must be seconds between two lines, 0.1 or more, not '{text}'")
      for text in ("0", "nan", "1e9")),
    # The life of a group.
    ("--start-method teleport", "teleport"),
    ("--shutdown-timeout -1", "--shutdown-timeout must be seconds, 0 or more, not -1"),
    ("--start-timeout inf", "--start-timeout must be seconds, more than 0, not inf"),
    ("--start-timeout ''", "--start-timeout must be a number, not ''"),
    ("-n 2 --silence-timeout 0", "--silence-timeout must be seconds, more than 0, not 0"),
    ("-n 2 --prefix '' --silence-timeout 1", "--silence-timeout notices nothing here: output that"),
    ("--max-restarts -1", "--max-restarts must be a count, 0 or more, not -1"),
    ("--min-uptime 3", "--min-uptime does nothing without --max-restarts, which is 0"),
    ("--max-restarts 3 --restart-backoff 5:1", "the most, 1, is less than the first wait, 5"),
    ("--max-restarts 3 --restart-scope node", 'scope must be "group" or "rank", not \'node\''),
    ("--signals-to-handle SIGKILL", "no process can handle SIGKILL"),
    ("--forward SIGINT", "SIGINT ends the group, and is not forwarded"),
    ("--forward SIGUSR1 --preempt slurm", "SIGUSR1 ends the group"),
    ("--preempt pbs", "--preempt must be slurm, kubernetes, or a signal"),
    *((f"--preload={shlex.quote(text)}", "is not the name of a module")
      for text in ("", "a b")),
    ("--pass-fds 999", "must be descriptors that are open in this process, not 999"),
    # Where ranks run.
    ("--cpus-per-rank 9999", "but this process may use"),
    ("--cpus-per-rank 1 --numa-binding node", "both say where ranks run"),
    ("--numa-binding core", "--numa-binding must be one of node, socket, exclusive"),
    ("--memory-limit 4X", "--memory-limit: '4X' is not a size"),
    ("--virtual-local-rank --devices cuda", "cannot go together"),
    ("--config no-such.toml", "--config: cannot read 'no-such.toml'"),
    # Several machines.
    ("--nnodes 4:1", "must be LEAST:MOST, the smaller count first"),
    ("--nnodes 2 --rdzv-backend c10d --rdzv-conf last_cal_timeout=3", "mean last_call_timeout?"),
    ("--nnodes 2 --rdzv-backend c10d --detach", "machines: start it by nohup"),
    ("--nnodes 2 --rdzv-backend c10d --stdin 0", "ranks on other machines cannot read this"),
    ("--node-rank 1", "numbered 0 to 0"),
    # Engines.
    ("--engine lsf", "--engine: unknown engine 'lsf'; choose slurm, ray or ssh; none disables"),
    ("--lease 5", "--lease needs --engine"),
    ("--engine ray --engine-options x", "--engine-options is for --engine ssh"),
    ("--engine ssh", "on which hosts? Say --hosts h1,h2 or --hostfile FILE"),
    ("--engine ssh --hosts h1 --nnodes 2", "2 nodes are asked for, but the number of hosts is 1"),
    ("--engine ssh --hosts a,b --patience 2", "--patience is for the ranks of one machine"),
    ("--engine slurm --stdin 0", "cannot read this command's input"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"), [*WRONG, *((f"{words} good.py", said) for words, said in VALUES)]
)
def test_a_run(refused, words, said):
    assert said in refused(words)


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("PET_NNODES", "1:2", "PET_NNODES 1:2: a range is for machines that find each other"),
        ("PET_STANDALONE", "yes", "PET_STANDALONE must be 0 or 1, not 'yes'"),
        ("PROCESSION_CONFIG", "no", "PROCESSION_CONFIG: cannot read 'no'"),
        ("PROCESSION_MEMORY_LIMIT", "4X", "PROCESSION_MEMORY_LIMIT: '4X' is not a size"),
    ],
)
def test_where_a_variable_says_it(refused, monkeypatch, variable, text, said):
    monkeypatch.setenv(variable, text)
    assert said in refused("good.py")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("config = 'x'", "there is no option 'config'"),
        ("nproc-per-node = 0", "nproc-per-node in pyproject.toml must be a count of 1 or more"),
        ("nproc-per-node = true", "nproc-per-node in pyproject.toml must be a text or a number"),
        ("standalone = 'yes'", "standalone in pyproject.toml must be true or false, not 'yes'"),
        ("env = { RANK = 7 }", "env in pyproject.toml: RANK is what each rank is told"),
        ("tee = ", "pyproject.toml is not TOML: "),
        ("fold = []", "fold in pyproject.toml must be a text or a number, not []"),
        ("log-dir = '/proc/nope'", "log-dir in pyproject.toml '/proc/nope': cannot prepare"),
        ("max-restarts = -1", "max-restarts in pyproject.toml must be a count, 0 or more, not -1"),
    ],
)
def test_where_a_file_says_it(here, refused, text, said):
    write(here / "pyproject.toml", f"[tool.procession]\n{text}\n")
    assert said in refused("good.py")


BINDINGS = ("PROCESSION_NUMA_BINDING", "PROCESSION_CPUS_PER_RANK")


def test_options_that_exclude_each_other_in_one_place(refused, monkeypatch):
    for variable, value in zip(BINDINGS, ("node", "1"), strict=True):
        monkeypatch.setenv(variable, value)
    assert f"{' and '.join(BINDINGS)} cannot go together" in refused("good.py")


@pytest.mark.parametrize(
    ("name", "visible", "nproc"),
    [("CUDA_VISIBLE_DEVICES", "0", 2), ("HIP_VISIBLE_DEVICES", "6,GPU-5f", 3)],
)
def test_more_ranks_than_devices(refused, monkeypatch, name, visible, nproc):
    monkeypatch.setenv(name, visible)
    said = f"{nproc} ranks need a device each, but {name}='{visible}' names {nproc - 1}"
    assert said in refused(f"-n {nproc} --virtual-local-rank good.py")


def test_an_allocation(refused, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    for name, text in (("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n[1-2]")):
        monkeypatch.setenv(name, text)
    said = "3 nodes are asked for, but the allocation (job 7) has 2"
    assert said in refused("--engine slurm --nnodes 3 good.py")


def test_outside_an_allocation_the_line_that_sends_a_job_is_told(refused):
    words = "--engine slurm --nnodes 2 -n 2 --cpus-per-rank 1 good.py"
    sent = shlex.split(refused(words).partition("to send a job: ")[2])
    assert sent[:4] == ["sbatch", "--nodes=2", "--ntasks-per-node=2", "--cpus-per-task=1"]
    assert sent[-2:] == ["--wrap", f"exec procession run {words}"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("frob", "there is no command 'frob'; to run a program, write `procession run frob`"),
        ("rum good.py", "there is no command 'rum'; did you mean `procession run`?"),
        ("help", "no command 'help'; to run a program, write `procession run help`; see `proc"),
        ("-n 2 x.py", "'-n'; the options of a run stand behind `procession run`"),
        ("--versoin", "there is no option '--versoin'; did you mean --version?"),
        ("doctor --jsn", "there is no option '--jsn'; did you mean --json?"),
        ("doctor who", "it takes no words beside its options, such as 'who'"),
        ("stop nothing", "there is no run 'nothing'"),
    ],
)
def test_a_command(refusal, words, said):
    refused = refusal(main, words)
    assert refused.startswith("procession")
    assert said in refused


# Runs the command, and tells of every process that it starts (but for the agent, which boots
# while the command line is read), and of any that is left.
HOOKED = """
import atexit, os, sys
def look():
    try:
        os.waitpid(-1, os.WNOHANG)
        os.write(2, b"STARTED WHAT IS LEFT\\n")
    except ChildProcessError:
        pass
atexit.register(look)  # the first of all, so the last to be called
def tell(event, args):
    if event in ("os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen", "os.exec"):
        if event != "os.posix_spawn" or "procession.agent.main:main" not in args[1]:
            os.write(2, f"STARTED A PROCESS: {event}\\n".encode())
sys.addaudithook(tell)
sys.argv[0] = "procession"
from procession.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize("words", ["run -n 0 good.py", "run -m gone", "run --log-dir /proc/x a"])
def test_nothing_is_started(here, words):
    done = run_python("-c", HOOKED, *shlex.split(words))
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert done.stderr.startswith("procession run: error: ")


def test_the_hook_sees_a_start(here):
    other = HOOKED.replace("main()", "os.posix_spawn('/bin/true', ['true'], {})")
    done = run_python("-c", other)
    assert done.stderr.splitlines() == ["STARTED A PROCESS: os.posix_spawn", "STARTED WHAT IS LEFT"]
