"""The diagrams of the lifecycle in the documentation."""

import importlib.util
from pathlib import Path

import pytest

from seams.jobs import JOB_TABLE
from seams.rules import GROUP_TABLE, WORKER_TABLE

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def drawing():
    spec = importlib.util.spec_from_file_location("draw_lifecycle", DOCS / "draw_lifecycle.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def page(tmp_path, drawing):
    path = tmp_path / "page.md"
    path.write_text(
        f"# Über uns\n\n{drawing.BEGIN}\nold\n{drawing.END}\n\nrest\n", encoding="utf-8"
    )
    return path


def test_diagrams_are_written_between_the_markers(drawing, page):
    assert drawing.main([str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# Über uns\n\n{drawing.BEGIN}\n")
    assert text.endswith(f"{drawing.END}\n\nrest\n")
    assert "old" not in text
    assert text.count("stateDiagram-v2") == 3


def test_writing_twice_changes_nothing(drawing, page):
    drawing.main([str(page)])
    text = page.read_bytes()
    assert drawing.main([str(page)]) == 0
    assert page.read_bytes() == text


def test_check_writes_nothing_and_tells(drawing, page, capsys):
    before = page.read_bytes()
    assert drawing.main([str(page), "--check"]) == 1
    assert page.read_bytes() == before
    assert "is not up to date" in capsys.readouterr().err
    drawing.main([str(page)])
    assert drawing.main([str(page), "--check"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("text", ["nothing", "{BEGIN}", "{END} {BEGIN}", "{BEGIN}{BEGIN}{END}"])
def test_a_page_without_its_markers(drawing, page, capsys, text):
    page.write_text(text.format(BEGIN=drawing.BEGIN, END=drawing.END))
    assert drawing.main([str(page)]) == 1
    said = capsys.readouterr().err
    assert str(page) in said
    assert drawing.BEGIN in said


def test_a_page_that_is_not_there(drawing, tmp_path, capsys):
    assert drawing.main([str(tmp_path / "none.md"), "--check"]) == 1
    assert capsys.readouterr().err == (
        f"draw_lifecycle: {tmp_path / 'none.md'}: No such file or directory\n"
    )


@pytest.mark.parametrize(("number", "table"), [(0, WORKER_TABLE), (1, GROUP_TABLE), (2, JOB_TABLE)])
def test_every_step_between_two_states_is_drawn_once(drawing, number, table):
    diagram = drawing.diagrams().split("```mermaid")[number + 1]
    lines = [line.strip() for line in diagram.splitlines() if "-->" in line]
    arrows = [line.partition(":")[0] for line in lines]
    assert len(arrows) == len(set(arrows))
    drawn = {}
    for line in lines:
        arrow, _, events = line.partition(": ")
        drawn[tuple(arrow.split(" --> "))] = events.split(", ")
    for (before, event), entry in table.items():
        after = entry[0] if isinstance(entry, tuple) else entry
        if after is not before:
            name = "verdict" if after is None else after.name
            assert event.name in drawn[before.name, name]
    assert not any(a == b for a, b in drawn)


def test_the_order_is_that_of_the_definitions(drawing):
    assert drawing.diagrams().index("PENDING --> STARTING: SPAWNED") < drawing.diagrams().index(
        "STARTING --> RUNNING: READY"
    )
    assert "verdict --> SUCCEEDED: every rank finished" in drawing.diagrams()


def test_the_documentation_is_up_to_date(drawing):
    page = DOCS / "design.md"
    if not page.exists() or drawing.BEGIN not in page.read_text(encoding="utf-8"):
        pytest.skip("docs/design.md holds no diagrams")
    assert drawing.main(["--check"]) == 0
