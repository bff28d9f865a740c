"""The code blocks of a page of Markdown, as tests run them.

A block of Python is a script; one whose first line is `# file: NAME` is the file of that name, in
the directory where the commands behind it run. In a console block, a line that begins with `$ ` is
a command, and the lines below it are what it prints, `...` standing for any other lines. A command
that is to fail says so: `# exits with 1`.
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# file: (\S+)\n")
EXITS = re.compile(r"\s+# exits with (\d+)$")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SIZES = re.compile(r"\d+(?:\.\d+)? ?(?:[kMG]?B|m?s|µs|us)\b")


class Block(NamedTuple):
    line: int
    language: str
    text: str


class Step(NamedTuple):
    """A command, the exit code that it is to have, and the lines that it is to print."""

    command: str
    code: int
    shown: list[str]


def blocks(page):
    """Give the blocks of a page."""
    return [
        Block(page.count("\n", 0, found.start()) + 1, found[1], found[2])
        for found in FENCE.finditer(page)
    ]


def steps(block):
    """Give the commands of a console block."""
    found = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            code = EXITS.search(line)
            command = EXITS.sub("", line[2:]).partition(" #")[0]
            found.append(Step(command, int(code[1]) if code else 0, []))
        elif line != "...":
            found[-1].shown.append(line)
    return found


def numbers_out(line):
    """Give a line without what differs from run to run."""
    return re.sub(r"\d+", "N", SIZES.sub("SIZE", line)).strip()


def anchors(page):
    """Give the anchors of a page's headings, as GitHub and the site make them."""
    found = set()
    outside = FENCE.sub("", page)
    for heading in re.findall(r"^#+ (.+)$", outside, re.MULTILINE):
        text, _, given = heading.partition(" { #")
        if given:
            found.add(given.removesuffix(" }"))
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
        found.add(re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-"))
    return found
