"""The codes of messages: each phrase stands in the code, and each entry can be found."""

import ast
from pathlib import Path

import pytest

import procession
from seams.explain import OUTCOMES, code_of, code_of_end, entries, noted, with_code
from seams.values import Exit, Outcome, RankEnd
from support import run_procession

SOURCE = Path(procession.__file__).parent
HOLE = "\0"  # where a value stands in a message
NOBODY = "could not be started, nor any other rank: 0 of 2 agents came:"
INSTALL = "install procession there, or name the right Python with --remote-python"


def texts():
    """Give all texts in the source, but for those of the entries themselves."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        if "messages" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = (v.value if isinstance(v, ast.Constant) else HOLE for v in node.values)
                found.append("".join(map(str, parts)))
    return found


@pytest.fixture(scope="module")
def source():
    return "\n".join(texts())


@pytest.mark.parametrize("entry", entries().values(), ids=list(entries()))
def test_an_entry(entry, source):
    missing = [phrase for phrase in entry.phrases if phrase not in source]
    assert missing == [], "no message has these words any more: change the entry"
    assert entry.title
    assert entry.title[-1] != "."
    assert entry.cause[-1] == entry.cure[-1] == "."


def test_a_phrase_is_no_common_words():
    """What a note quotes might have them, and would get the code of another message."""
    common = [
        phrase
        for entry in entries().values()
        for phrase in entry.phrases
        if phrase[0] == phrase[-1] == " " and len(phrase.split()) < 3
    ]
    assert set(common) <= {" must be ", " raised ", " chips, which "}, "say more words"


def test_no_code_is_used_twice():
    from seams.explain import ENDS, MACHINES, NOTES, REQUESTS, RUNS, VALUES

    codes = [entry.code for entry in (*REQUESTS, *VALUES, *ENDS, *MACHINES, *RUNS, *NOTES)]
    assert len(codes) == len(set(codes))


def test_no_phrase_belongs_to_two_entries():
    phrases = [phrase for entry in entries().values() for phrase in entry.phrases]
    assert len(phrases) == len(set(phrases))


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("there is no script 'train.py'", "P004"),
        ("there is no program 'trian' on the PATH", "P005"),
        ("--nproc-per-node must be a count of 1 or more, not 'x'", "P003"),
        ("--live and --json cannot go together", "P008"),
        ("there is no engine 'slrum'; there are ray, slurm, ssh", "P201"),
        ("something that nobody has written down", ""),
    ],
)
def test_the_code_of_a_message(message, code):
    assert code_of(message) == code


@pytest.mark.parametrize(
    ("note", "code"),
    [
        ("attempt 0 failed: rank 1 of 2 raised ValueError: x must be 3; attempt 1 starts", "P101"),
        ("early raised OSError: each rank gets a fresh interpreter, and more", "P403"),
        ("t.py could not be started: no rendezvous at h:1 within 5 s: refused", "P221"),
    ],
)
def test_the_code_of_a_note_that_quotes_others(note, code):
    assert noted(note) == f"{note} [{code}]"


def test_what_nobody_has_written_down_has_no_code():
    assert noted("logs in runs/t.py_1") == "logs in runs/t.py_1"


def test_a_refusal_always_has_a_code():
    assert with_code("something else").endswith(" [P001]")


def test_every_failure_has_a_code():
    """Outcomes that are no failures have none: nobody asks for a reason."""
    assert set(Outcome) - OUTCOMES.keys() == {Outcome.RETURNED, Outcome.CANCELLED}
    assert set(OUTCOMES.values()) <= entries().keys()
    killed = RankEnd(0, 1, Outcome.SIGNALLED, exit=Exit(signal=9), out_of_memory=True)
    assert entries()[code_of_end(killed)].title == "A rank was killed, likely out of memory"
    assert code_of_end(RankEnd(0, 1, Outcome.RETURNED)) == ""


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("could not start its program: No such file: './it cannot be reached'", "P106"),
        ("could not be started, nor any other rank: Too many open files", "P106"),
        (f"{NOBODY} host h1: its name cannot be resolved (Could not resolve it)", "P210"),
        (f"{NOBODY} host h1: ssh does not take its options (h1: Bad option)", "P210"),
        (f"{NOBODY} the connection to h1 ended with code 255: Can't open user config file", "P210"),
        (f"{NOBODY} no Python with procession: /p (which is not there) on h1: {INSTALL}", "P211"),
        (f"{NOBODY[:-1]} (of h1) within 5 s", "P106"),
    ],
)
def test_machines_that_do_not_come_have_the_code_of_why(message, code):
    assert code_of_end(RankEnd(0, None, Outcome.NOT_STARTED, message=message)) == code


def test_the_command(tmp_path):
    refused = run_procession("run", "nosuch.py", cwd=tmp_path)
    line = refused.stderr.strip()
    assert line.endswith("there is no script 'nosuch.py' [P004]")
    told = run_procession("explain", "P004").stdout
    assert told.startswith("P004: There is no such script\n\nwhy:\n")
    assert "\n\nwhat to do:\n" in told
    assert run_procession("explain", line).stdout == told
    assert run_procession("explain", "[p004]").stdout == told
    listed = run_procession("explain").stdout
    assert [row.split()[0] for row in listed.splitlines()] == list(entries())
    unknown = run_procession("explain", "no such thing")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "nothing is known about 'no such thing'" in unknown.stderr
