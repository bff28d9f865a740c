import functools
import pathlib

import pytest

from seams.values import (
    Command,
    Function,
    Logs,
    Module,
    Restart,
    Script,
    SpecError,
    Stop,
    as_program,
    make_spec,
    program_problem,
)


def work(*args, **kwargs):
    return args, kwargs


class Callable:
    def __call__(self):
        return 1


def refusal(program=work, **options):
    with pytest.raises(SpecError) as raised:
        make_spec(program, **{"nproc": 4, **options})
    text = str(raised.value)
    assert "\n" not in text, text
    assert text
    return text


# -- what a program is


@pytest.mark.parametrize(
    ("given", "program"),
    [
        (work, Function(work)),
        (len, Function(len)),
        ("true", Command(("true",))),
        (pathlib.Path("/bin/true"), Command(("/bin/true",))),
        (["echo", "a b", pathlib.Path("c")], Command(("echo", "a b", "c"))),
        (("echo",), Command(("echo",))),
        (Script("train.py", ("-x",)), Script("train.py", ("-x",))),
        (Module("pkg.main"), Module("pkg.main")),
    ],
)
def test_programs_are_told_apart(given, program):
    assert as_program(given) == program


@pytest.mark.parametrize(
    ("program", "name"),
    [
        (work, "work"),
        (functools.partial(work, 1), "partial"),
        (Callable(), "Callable"),
        (lambda: 1, "<lambda>"),
        (["/bin/true"], "true"),
        (Module("pkg.main"), "pkg.main"),
    ],
)
def test_a_group_is_named_after_its_program(program, name):
    assert make_spec(program, nproc=1).name == name
    assert make_spec(program, nproc=1, name="mine").name == "mine"


# -- arguments and environment by rank


# -- refusals: one line that names the culprit


@pytest.mark.parametrize("nproc", [0, -1, True, 1.0, "4", None])
def test_nproc(nproc):
    assert refusal(nproc=nproc) == f"nproc must be a count of ranks, 1 to 32768, not {nproc!r}"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start_method": "thread"}, "start_method must be one of forkserver, spawn, fork, not "
                                     "'thread'"),
        ({"stdin": 4}, "stdin: there is no rank 4; the ranks are 0 to 3"),
        ({"stdin": -1}, "stdin: there is no rank -1"),
        ({"args": "abc"}, "args must be a tuple or a list, or a mapping from rank to one, not "
                          "'abc'"),
        ({"args": 5}, "args must be a tuple or a list"),
        ({"args": {}}, "args must be a tuple or a list"),
        ({"args": {0: ()}}, "args: nothing given for ranks 1-3"),
        ({"args": {0: (), 1: (), 2: (), 3: "x"}}, "args must be a tuple or a list, or a mapping "
                                                  "from rank to one, not 'x'"),
        ({"args": {9: ()}}, "args: given for rank 9"),
        ({"kwargs": [1]}, "kwargs must be a mapping, or a mapping by rank, not [1]"),
        ({"kwargs": {"a": 1, 2: 3}}, "kwargs: the name 2 is not a string"),
        ({"kwargs": {7: {}}}, "kwargs: given for rank 7"),
        ({"env": [1]}, "env must be a mapping, or a mapping by rank, not [1]"),
        ({"env": {"A": 1}}, "env: A is 1, of type int; it must be a string without NUL"),
        ({"env": {"A": "\0"}}, "env: A is '\\x00', of type str; it must be a string without NUL"),
        ({"env": {"A=B": "1"}}, "env: 'A=B' is not the name of a variable"),
        ({"env": {"": "1"}}, "env: '' is not the name of a variable"),
        ({"env": {"A\0": "1"}}, "env: 'A\\x00' is not the name of a variable"),
        ({"env": {1: {"A": 2}}}, "env: A is 2"),
        ({"cwd": "/nowhere"}, "cwd: '/nowhere' is not a directory"),
        ({"cwd": "/dev/null"}, "cwd: '/dev/null' is not a directory"),
        ({"logs": Logs(dir="/dev/null")}, "log directory: '/dev/null' is not a directory"),
        ({"stop": Stop(grace=-1)}, "stop: grace must be seconds"),
        ({"restart": Restart(max=-1)}, "restart: max must be a count"),
    ],
)  # fmt: skip
def test_options(options, words):
    assert words in refusal(**options)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ([], "the command is empty: give a program and its arguments"),
        (["echo", 1], "the command's word 1 is 1, of type int; each must be a string or a path"),
        ([None], "the command's word 0 is None, of type NoneType"),
        (5, "cannot run 5: give a function, a list such as ['python', 'train.py'], or the name"),
        (None, "cannot run None"),
        ("", "'' is not the name of a program"),
        ("a\0b", "'a\\x00b' is not the name of a program"),
        ("no-such-program", "rank 0: there is no program 'no-such-program' on the PATH"),
        ("python train.py", "for a command with arguments give a list: ['python', 'train.py']"),
        ("/no/such", "rank 0: there is no program '/no/such'"),
        ("/tmp/", "rank 0: '/tmp/' is a directory, not a program"),
        (["true", "a\0b"], "a\\x00b"),
    ],
)
def test_programs(program, words):
    assert words in refusal(program)


def test_a_file_that_is_not_executable(tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n")
    assert refusal([script]) == (
        f"rank 0: '{script}' is not executable; chmod +x it, or name its interpreter"
    )
    script.chmod(0o700)
    assert make_spec([script], nproc=1).program == Command((str(script),))


def test_a_program_is_looked_for_where_its_rank_runs(tmp_path):
    program = tmp_path / "job"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    assert program_problem("./job", str(tmp_path)) == ""
    assert program_problem("./job", "/") == "there is no program './job'"
    assert program_problem("job", None, str(tmp_path)) == ""
    assert make_spec(["./job"], nproc=1, cwd=tmp_path).cwd == str(tmp_path)
    env = {0: {"PATH": str(tmp_path)}, 1: {"PATH": "/nowhere"}}
    assert "rank 1: there is no program 'job' on the PATH" in refusal(["job"], nproc=2, env=env)


def test_arguments_of_commands_are_words():
    assert (
        refusal(["true"], kwargs={"a": 1}) == "kwargs are for functions; a command takes args only"
    )
    args = {0: ("a",), 1: ("b", 2), 2: (), 3: ()}
    assert refusal(["true"], args=args) == (
        "args of rank 1: word 1 is 2, of type int; each must be a string or a path"
    )
    assert make_spec(["true"], nproc=1, args=[pathlib.Path("x")]).args == ((pathlib.Path("x"),),)


def test_scripts(tmp_path):
    assert refusal(Script("/no/such.py")) == "there is no script '/no/such.py'"
    (tmp_path / "here.py").write_text("")
    assert make_spec(Script("here.py"), nproc=1, cwd=tmp_path).program == Script("here.py")
    assert refusal(Script("here.py"), cwd="/") == "there is no script 'here.py'"


def test_programs_by_rank():
    spec = make_spec({0: ["true"], 1: Module("json.tool"), 2: Module("json.tool")}, nproc=3)
    assert spec.program_of(0) == Command(("true",))
    assert spec.program_of(2) == Module("json.tool")
    assert [spec.runs_python(rank) for rank in range(3)] == [False, True, True]
    assert spec.is_python
    assert spec.name == "true:json.tool"


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        ({0: ["true"]}, "program: nothing given for rank 1"),
        ({0: ["true"], 1: ["true"], 2: ["true"]}, "program: given for rank 2"),
        ({0: ["true"], 1: work}, "functions cannot be given by rank"),
        ({0: ["true"], 1: []}, "the command is empty"),
        ({0: ["true"], 1: ["no-such-program"]}, "rank 1: there is no program"),
        ({0: ["true"], 1: Script("no-such.py")}, "there is no script"),
    ],
)
def test_wrong_programs_by_rank(programs, said):
    assert said in refusal(programs, nproc=2)
