"""Each message in the source has an entry by which `procession explain` knows it.

Read out of the syntax of the source: what is raised as a refusal, what is noted, and what is said.
A text of which nothing is written down at its place (all of it comes from elsewhere) is read there.
"""

import ast
import re
from pathlib import Path
from typing import NamedTuple

import procession
from seams.explain import code_of, entries, noted

SOURCE = Path(procession.__file__).parent
HOLE = "\0"
REFUSED = {"SpecError", "EngineError", "NotFound", "NotAnswered"}
REFUSING = {"refuse": 1, "failed": 1, "does_not_apply": 1, "error": 0}  # place of the text
NOTING = {"append", "note"}
SAYING = {"say", "say_line", "say_note", "_say", "warn", "warning", "print"}
CODE = re.compile(r"\[(P\d{3})\]$")
# torch's own log lines, which procession.elastic and .multiprocessing give in torch's words.
AS_TORCH = ("elastic/", "multiprocessing/")
# What a command was asked for, what goes on, and questions: there is no cause and no cure.
ANSWERS = (
    "nothing is kept\n", "nothing runs here", " goes on; see procession attach",
    "stopping the run", " runs on without this terminal",
    "nothing is known about", "the agent on \0 ",
)  # fmt: skip


class Said(NamedTuple):
    where: str
    how: str
    text: str


def text_of(node):
    """Give the text of an expression, values as holes; "" where none of it is written there."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else HOLE for v in node.values)
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    if isinstance(node, ast.IfExp):
        return text_of(node.body) or text_of(node.orelse)
    return ""


def is_written(text):
    """Tell whether there are words by which to know it, and not only values and marks."""
    return len(re.findall(r"\b[a-z]{2,}\b", text.replace("procession", ""))) > 2


def calls():
    """Give all calls in the source: (file, name of what is called, whose method, the node)."""
    for path in sorted(SOURCE.rglob("*.py")):
        if "messages" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args:
                of, name = "", getattr(node.func, "id", "")
                if isinstance(node.func, ast.Attribute):
                    of, name = ast.unparse(node.func.value), node.func.attr
                yield str(path.relative_to(SOURCE)), of, name, node


def refusals():
    for file, of, name, node in calls():
        at = 0 if name in REFUSED else REFUSING.get(name)
        if at is None or at >= len(node.args) or (name == "error" and "log" in of.lower()):
            continue
        if (text := text_of(node.args[at])) and is_written(text):
            # The option stands before why it does not apply.
            text = f"{HOLE} {text}" if name == "does_not_apply" else text
            yield Said(f"{file}:{node.lineno}", name, text)


def notes():
    for file, of, name, node in calls():
        noting = name in NOTING and (of.endswith("notes") or (name == "note" and of == "self"))
        if noting and (text := text_of(node.args[0])) and is_written(text):
            yield Said(f"{file}:{node.lineno}", name, text)


def sayings():
    for file, _, name, node in calls():
        if name not in SAYING or file.startswith((*AS_TORCH, "worker/bootstrap", "xla/rank")):
            continue
        if name == "say" and len(node.args) > 1 and "stdout" in ast.unparse(node.args[1]):
            continue
        if (text := text_of(node.args[0])) and is_written(text):
            yield Said(f"{file}:{node.lineno}", name, text)


def test_each_refusal_has_an_entry():
    found = list(refusals())
    assert len(found) > 200
    assert [said for said in found if not code_of(said.text)] == []


def test_each_note_has_an_entry():
    found = list(notes())
    assert len(found) > 10
    # Those on devices are shown by `procession doctor`, which is asked for them.
    own = [said for said in found if not said.where.startswith(("system/acc", "explain/ends"))]
    assert [said for said in own if not CODE.search(noted(said.text))] == []


def test_what_is_said_carries_its_code_or_answers_a_command():
    found = list(sayings())
    assert len(found) > 30
    wrong = []
    for said in found:
        told = noted(said.text) if said.how in ("say_note", "_say") else said.text.strip()
        if not CODE.search(told) and not any(each in said.text for each in ANSWERS):
            wrong.append(said)
    assert wrong == []


def test_a_code_in_a_text_is_that_of_its_entry():
    written = [
        (found[1], node.value)
        for path in sorted(SOURCE.rglob("*.py"))
        if "messages" not in path.parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for found in [CODE.search(node.value.strip())]
        if found
    ]
    assert len(written) > 10
    assert {code for code, _ in written} <= entries().keys()
    known = [(code, CODE.search(noted(text.partition(" [P")[0]))) for code, text in written]
    assert [(code, found[1]) for code, found in known if found and found[1] != code] == []


def test_each_answer_is_still_given():
    texts = [said.text for said in sayings()]
    assert [each for each in ANSWERS if not any(each in text for text in texts)] == []
