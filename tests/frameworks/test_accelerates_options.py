"""The page on moving from accelerate names each option of the real `accelerate launch`."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "integrations" / "launchers.md"


def test_each_option_is_in_the_table():
    launch = pytest.importorskip("accelerate.commands.launch")
    text = PAGE.read_text().partition("## accelerate launch")[2].partition("\n## ")[0]
    cells = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    code = " ".join(part for cell in cells for part in re.findall(r"`([^`]*)`", cell))
    words = re.findall(r"--?[\w*]+", code)
    families = tuple(word.rstrip("*") for word in words if word.endswith("*"))
    missing = [
        action.option_strings
        for action in launch.launch_command_parser()._actions
        if action.option_strings
        and action.dest != "help"
        and not any(each in words or each.startswith(families) for each in action.option_strings)
    ]
    assert missing == []
