"""A few cells of `make chaos-matrix`; its filters, and that it sees what is wrong."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.matrix import runner, seccomp
from chaos.matrix.cell import BROKEN, FALLS_BACK, REFUSES, WORKS, Cell
from chaos.matrix.cells import CELLS, SHORT
from chaos.matrix.environment import Environment, Refusal, read
from chaos.matrix.results import PAGE, page
from chaos.matrix.verdict import TOLD_BY, judge

REFUSED = {"no_memfd_create"}
CHECKS = ("function, forkserver", "script", "cause", "killed launcher", "contain pidns")
ARGUMENTS = 16


@pytest.mark.timeout(150)
@pytest.mark.parametrize("name", SHORT)
def test_a_cell(name):
    lack = CELLS[name].lacks()
    if lack:
        pytest.skip(lack)
    ran = runner.run_cell(CELLS[name], CHECKS)
    assert ran.verdict.problems == (), ran
    assert (ran.verdict.word == REFUSES) == (name in REFUSED)
    assert len(ran.checks) == len(CHECKS)


def test_the_page_is_that_of_the_results():
    assert PAGE.read_text(encoding="utf-8") == page()


def test_an_environment_is_read_as_it_was_written():
    for cell in CELLS.values():
        again = read(cell.environment.written("{place}"))
        assert again.written("/p") == cell.environment.written("/p")


# -- filters


def answer(program, number, arguments=(0,) * 6):
    """Run a filter as the kernel does."""
    data = {0: number, 4: seccomp.X86_64}
    data |= {ARGUMENTS + 8 * i: each & 0xFFFFFFFF for i, each in enumerate(arguments)}
    loaded, at = 0, 0
    while True:
        code, yes, no, value = program[at]
        at += 1
        if code == seccomp.LOAD:
            loaded = data[value]
        elif code == seccomp.RETURN:
            return value
        else:
            holds = {
                seccomp.IS: loaded == value,
                seccomp.ABOVE: loaded > value,
                seccomp.HAS: bool(loaded & value),
            }[code]
            at += yes if holds else no


def number_of(name):
    return seccomp._calls()["numbers"][name]


@pytest.mark.parametrize(
    ("when", "values", "refused", "allowed"),
    [
        ("", (), (0, 1, 99), ()),
        ("is one of", (3, 5), (3, 5), (0, 4, 6)),
        ("is not one of", (3, 5), (0, 4, 6), (3, 5)),
        ("is above", (5,), (6, 99), (0, 5)),
        ("has a bit of", (6,), (2, 4, 7), (0, 1, 8)),
    ],
)
def test_a_filter_refuses_by_an_argument(when, values, refused, allowed):
    made = seccomp.program([Refusal("prctl", "EPERM", 1, when, values), Refusal("waitid")])
    prctl = number_of("prctl")
    for each in refused:
        assert answer(made, prctl, (0, each, 0, 0, 0, 0)) == seccomp.ERROR | 1
    for each in allowed:
        assert answer(made, prctl, (0, each, 0, 0, 0, 0)) == seccomp.ALLOW
    assert answer(made, number_of("waitid")) == seccomp.ERROR | 38
    assert answer(made, number_of("eventfd2")) == seccomp.ALLOW


@pytest.mark.parametrize("name", ["docker", "podman", "kubernetes"])
def test_a_profile(name):
    given = seccomp.profile(name)
    made = seccomp.program(seccomp.refusals_of(name), given["unknown"])
    for call in ("pidfd_open", "pidfd_send_signal", "waitid", "memfd_create", "eventfd2"):
        assert answer(made, number_of(call)) == seccomp.ALLOW
    assert answer(made, 9999) == seccomp.ERROR | {"EPERM": 1, "ENOSYS": 38}[given["unknown"]]
    assert answer(made, number_of("kexec_load")) == seccomp.ERROR | 1
    assert answer(made, number_of("personality"), (0, 0, 0, 0, 0, 0)) == seccomp.ALLOW
    assert answer(made, number_of("personality"), (1, 0, 0, 0, 0, 0)) != seccomp.ALLOW
    assert given["source"]
    assert given["version"]


# -- verdicts


def finding(mark="ok", data=True):
    return {"thing": "a thing", "mark": mark, "value": "", "data": data, "instead": "does without"}


def doctor(ok=True, missing=(), **findings):
    keys = {key for each in TOLD_BY.values() for key in each}
    group = {key: finding() for key in keys} | findings
    return {"ok": ok, "missing": list(missing), "groups": {"kernel": group}}


def told(check="script", came="works", said=""):
    return {"check": check, "came": came, "said": said}


def verdict(cell, main=(), beside=(), inside=None):
    given = inside or doctor(pidfd=finding())
    return judge(cell, main or [told()], beside, given, doctor(pidfd=finding()))


PLAIN = Cell("plain")
LESS = doctor(pidfd=finding("falls back", False))
NONE = doctor(False, ["a thing"], pidfd=finding("missing", False))
NAMED = told(came="refuses", said="a thing is missing [P309]")


def test_verdicts():
    assert verdict(PLAIN).word == WORKS
    less = verdict(replace(PLAIN, worse=("pidfd",)), inside=LESS)
    assert (less.word, less.said, less.problems) == (FALLS_BACK, ("a thing: does without",), ())
    none = verdict(replace(PLAIN, worse=("pidfd",), needed=True), [NAMED], inside=NONE)
    assert (none.word, none.problems) == (REFUSES, ())


@pytest.mark.parametrize(
    ("cell", "main", "beside", "inside", "said"),
    [
        (PLAIN, [told(came="broken", said="left")], (), None, "script: left"),
        (PLAIN, [told(), NAMED], (), None, "script: a thing is missing"),
        (PLAIN, (), (), LESS, "doctor says that pidfd is worse here"),
        (replace(PLAIN, worse=("pidfd",)), (), (), None, "doctor does not say that pidfd is worse"),
        (replace(PLAIN, worse=("pidfd",)), (), (), NONE, "doctor says no, launches: works"),
        (PLAIN, [NAMED], (), None, "doctor says ok, launches: refuses"),
        (replace(PLAIN, needed=True), (), (), None, "this should be refused: works"),
        (PLAIN, (), [told("detached", "refuses", "no")], None, "the launch: refuses"),
        (
            PLAIN,
            (),
            [told("contain pidns")],
            doctor(namespaces=finding("-", False), pidfd=finding()),
            "doctor says of contain pidns",
        ),
    ],
)
def test_what_is_wrong_is_said(cell, main, beside, inside, said):
    found = verdict(cell, main, beside, inside)
    assert any(said in each for each in found.problems), found


def test_broken_checks_are_broken():
    assert verdict(PLAIN, [told(came="broken", said="left")]).word == BROKEN
    assert verdict(PLAIN, [told(), NAMED]).word == BROKEN


@pytest.mark.timeout(100)
def test_a_process_that_is_left_is_seen(monkeypatch):
    """A check that leaves a process, in the place of the real one."""
    leaves = (
        "import subprocess as s; "
        "s.Popen(['sleep', '60'], stdout=s.DEVNULL, stderr=s.DEVNULL, start_new_session=True)"
    )
    whole = runner._Place.run

    def run(self, environment, python, words):
        mine = words if "doctor" in words else ["-c", leaves]
        return whole(self, environment, python, mine)

    monkeypatch.setattr(runner._Place, "run", run)
    ran = runner.run_cell(Cell("leaves", Environment()), ("script",))
    assert ran.verdict.word == BROKEN
    assert any(each.startswith("left: ") for each in ran.verdict.problems), ran


def test_a_name_that_is_not_there():
    from support import run_python

    root = Path(__file__).parent.parent.parent
    done = run_python("-m", "chaos.matrix", cwd=root, env={**os.environ, "CELL": "nowhere"})
    assert done.returncode == 2
    assert "there is no cell 'nowhere'" in done.stderr
