"""The codes of messages: each that is printed is explained, and the other way round."""

import re
from pathlib import Path

import pytest

import procession
from seams.explain import CODES, OUT_OF_MEMORY, entries, headline_of
from seams.values import Exit, GroupEnd, Outcome, RankEnd
from support import run_procession

SOURCE = Path(procession.__file__).parent
NOBODY = "could not be started, nor any other rank: 0 of 2 node processes came: "


def printed():
    """Give the codes that messages in the source have."""
    texts = [path.read_text() for path in SOURCE.rglob("*.py")]
    return {code for text in texts for code in re.findall(r"\[(P\d{3})\]", text)}


def code_of(end):
    return headline_of(GroupEnd("train", 2, failures=(end,)))[-6:]


def test_each_code_that_is_printed_is_explained_and_each_explained_is_printed():
    text = (SOURCE / "explain" / "codes.md").read_text()
    titles = re.findall(r"^## (P\d{3}): ", text, re.MULTILINE)
    assert titles == sorted(set(titles))
    assert set(titles) == printed() | set(CODES.values()) | {OUT_OF_MEMORY}
    assert list(entries()) == titles


def test_each_entry_has_a_title_a_reason_and_a_remedy():
    assert {len(entry) for entry in entries().values()} == {3}
    assert [title for title, _, _ in entries().values() if title[-1] == "."] == []
    assert [part for _, *parts in entries().values() for part in parts if part[-1] != "."] == []


def test_every_failure_has_a_code():
    """Outcomes that are no failures have none: there is no reason to ask for."""
    assert set(Outcome) - CODES.keys() == {Outcome.RETURNED, Outcome.CANCELLED}
    killed = RankEnd(0, 1, Outcome.SIGNALLED, exit=Exit(signal=9), out_of_memory=True)
    assert code_of(killed) == "[P104]"
    assert code_of(killed.__replace__(out_of_memory=False)) == "[P103]"
    assert "[" not in code_of(RankEnd(0, 1, Outcome.RETURNED))


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("could not start its program: No such file: './it cannot be reached'", "P106"),
        (f"{NOBODY}host h1: its name cannot be resolved (no such name) [P210]", "P210"),
        (f"{NOBODY}no Python with procession: {'/p, ' * 90} on h1: install it [P211]", "P211"),
    ],
)
def test_machines_that_do_not_come_have_the_code_of_why(message, code):
    said = headline_of(
        GroupEnd("train", 2, failures=(RankEnd(0, None, Outcome.NOT_STARTED, message=message),))
    )
    assert re.findall(r"\[P\d+\]", said) == [f"[{code}]"]
    assert said.endswith("]")


def test_the_command(tmp_path):
    line = run_procession("run", "false", cwd=tmp_path).stderr.splitlines()[0]
    assert line.endswith("[P102]")
    told = run_procession("explain", "P102").stdout
    assert told.startswith("P102: A rank exited with a nonzero code\n\nwhy:\n  ")
    assert "\n\nwhat to do:\n  " in told
    assert run_procession("explain", line).stdout == told
    assert run_procession("explain", "[p102]").stdout == told
    listed = run_procession("explain").stdout.splitlines()
    assert [row.split()[0] for row in listed] == list(entries())
    unknown = run_procession("explain", "xyzzy plugh")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "no code or entry has 'xyzzy plugh'; procession explain lists" in unknown.stderr
    first = [run_procession("explain", w).stdout[:4] for w in ("oom", "hang", "nccl timeout")]
    assert first == ["P104", "P105", "P105"]


def test_a_refusal_of_the_command_line_says_what_to_do_and_has_no_code(tmp_path):
    refused = run_procession("run", "nosuch.py", cwd=tmp_path)
    assert refused.stderr == "procession run: error: there is no script 'nosuch.py'\n"
