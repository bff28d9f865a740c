"""The codes of messages: each phrase stands in the code, and each entry can be found."""

import ast
from pathlib import Path

import pytest

import procession
from seams.explain import OUTCOMES, code_of, code_of_end, entries, with_code
from seams.values import Exit, Outcome, RankEnd
from support import run_procession

SOURCE = Path(procession.__file__).parent
HOLE = "\0"  # where a value stands in a message


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


def test_no_code_is_used_twice():
    from seams.explain import ENDS, MACHINES, REQUESTS, RUNS

    codes = [entry.code for entry in (*REQUESTS, *ENDS, *MACHINES, *RUNS)]
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


def test_a_refusal_always_has_a_code():
    assert with_code("something else").endswith(" [P001]")


def test_every_failure_has_a_code():
    """Outcomes that are no failures have none: nobody asks for a reason."""
    assert set(Outcome) - OUTCOMES.keys() == {Outcome.RETURNED, Outcome.CANCELLED}
    assert set(OUTCOMES.values()) <= entries().keys()
    killed = RankEnd(0, 1, Outcome.SIGNALLED, exit=Exit(signal=9), out_of_memory=True)
    assert entries()[code_of_end(killed)].title == "A rank was killed, likely out of memory"
    assert code_of_end(RankEnd(0, 1, Outcome.RETURNED)) == ""


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
