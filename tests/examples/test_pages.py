"""What the pages of the documentation show is so: commands, scripts, output, links, pictures."""

import re
import shlex
from importlib.util import find_spec

import pytest
from pages import FENCE, FILE, LINK, ROOT, anchors, blocks, numbers_out, steps

from support import run_procession, run_python

DOCS = ROOT / "docs"


def needs(module):
    return pytest.mark.skipif(not find_spec(module), reason=f"{module} is not installed")


RUN = [
    "../README.md",
    "quickstart.md",
    "guides/python.md",
    pytest.param(
        "integrations/interfaces.md", marks=[pytest.mark.jax, needs("jax"), pytest.mark.long]
    ),
]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("*/*.md"), *DOCS.glob("*/*.md"), DOCS / "llms.txt"])


@pytest.mark.parametrize("name", RUN)
@pytest.mark.timeout(120)
def test_a_page_that_can_be_followed(name, tmp_path):
    """Do what the page says, in order, and compare what is seen."""
    targets = {*re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)}
    for block in blocks((DOCS / name).read_text()):
        if block.language == "python" and (file := FILE.match(block.text)):
            (tmp_path / file[1]).write_text(block.text)
        elif block.language == "python":
            (tmp_path / "script.py").write_text(block.text)
            done = run_python("script.py", cwd=tmp_path, timeout=60)
            assert done.returncode == 0, (block.line, done.stderr)
        elif block.language == "console":
            for step in steps(block):
                words = shlex.split(step.command)
                if words[0] == "make":
                    assert {word for word in words[1:] if "=" not in word} <= targets, step
                if words[0] in ("make", "git"):
                    continue
                assert words[0] == "procession", step
                done = run_procession(*words[1:], cwd=tmp_path, timeout=60)
                assert done.returncode == step.code, (step, done.stderr)
                seen = {numbers_out(line) for line in (done.stdout + done.stderr).splitlines()}
                missing = [line for line in step.shown if numbers_out(line) not in seen]
                assert missing == [], (step.command, done.stdout, done.stderr)


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_links_lead_somewhere(page):
    wrong = []
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        if not place.exists() or (
            anchor and place.suffix == ".md" and anchor not in anchors(place.read_text())
        ):
            wrong.append(target)
    assert wrong == []


def test_every_link_of_the_site_stays_in_it():
    """What lies beside docs/ is not on the site: a link there is a URL."""
    wrong = []
    for page in DOCS.rglob("*.md"):
        for target in LINK.findall(FENCE.sub("", page.read_text())):
            path = target.partition("#")[0]
            if path and "://" not in path and DOCS not in (page.parent / path).resolve().parents:
                wrong.append((page.name, target))
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tests_that_a_page_names_are_there(page):
    for path, _, name in re.findall(r"`(tests/[\w/]+\.py)(::(\w+))?`", page.read_text()):
        assert (ROOT / path).exists(), path
        if name:
            assert f"\ndef {name}(" in (ROOT / path).read_text(), f"{path}::{name}"
