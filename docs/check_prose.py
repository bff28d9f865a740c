"""Checks the words of pages and help: `python docs/check_prose.py`; what it finds is an error.

The rules: a sentence has at most 30 words and one colon, some words are not used, and `where` is no
condition. Code, tables of figures and what other scripts write are not looked at.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from procession.cli.options import BRIEF, DESCRIPTION, EPILOG, TABLE

HOME = Path(__file__).parents[1]
ELSEWHERE = {"design.md", "reliability.md"}  # for development
MOST_WORDS = 30
UNUSED = re.compile(
    r"\b((?<!no )such(?! as)|so (?:many|long)|told|tells|somebody|nobody|whatever|whoever|"
    r"what there is|"
    r"of (?:its|their) own(?= *[,.;|)]|$)|anew|by hand|mended|places?|he|goes on|going on)\b",
    re.IGNORECASE,
)
CONDITION = re.compile(r"(?:^|, )where (?!to\b|else\b)", re.IGNORECASE)
CODE = re.compile(r"```.*?```|`[^`\n]+`|<[^>\n]+>|^::: .*(?:\n +.*)*", re.DOTALL | re.MULTILINE)


def main() -> int:
    """Print what is wrong, and give the exit code."""
    found = [f"{where}: {what}" for where, text in texts() for what in wrong_in(text)]
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


def texts() -> Iterator[tuple[str, str]]:
    """Give each text that is checked, and where it stands."""
    pages = [HOME / "README.md", *sorted((HOME / "docs").rglob("*.md"))]
    for page in [*pages, HOME / "src" / "procession" / "explain" / "codes.md"]:
        if page.name not in ELSEWHERE:
            yield str(page.relative_to(HOME)), page.read_text("utf-8")
    for option in (option for rows in TABLE.values() for option in rows):
        yield option.names[-1], re.sub(r" \(default: .*\)$", "", option.help)
    for name, text in (("BRIEF", BRIEF), ("DESCRIPTION", DESCRIPTION), ("EPILOG", EPILOG)):
        yield name, re.sub(r"\n +.*", "", text)  # not the lists


def wrong_in(text: str) -> Iterator[str]:
    """Give what is wrong in a text, each with its sentence."""
    text = CODE.sub(lambda code: "" if code[0].startswith(("```", ":::")) else "CODE", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r" \(default: [^)\n]*\)", "", text)
    for block in re.split(r"\n\s*\n|\n\s*(?:[-*#]|\d+\.) |\n(?=\s*\|)", text):
        for part in block.split(" | ") if block.lstrip().startswith("|") else [block]:
            for sentence in re.split(r"(?<=[.!?;]) +|(?<=[.!?;])\n", " ".join(part.split())):
                yield from (f"{what}: {sentence}" for what in _wrong(sentence))


def _wrong(sentence: str) -> Iterator[str]:
    if len(re.findall(r"\w[\w'÷.-]*", sentence)) > MOST_WORDS:
        yield f"more than {MOST_WORDS} words"
    if sentence.count(": ") > 1:
        yield "two colons"
    yield from (f"'{word[0]}'" for word in UNUSED.finditer(sentence))
    if CONDITION.search(sentence):
        yield "'where' as a condition"


if __name__ == "__main__":
    sys.exit(main())
