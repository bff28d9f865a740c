"""What PROGRAM may be, and what of the command line belongs to it."""

import json
import os
import sys
import zipfile

import pytest
from commandline import good

from support import run_python, write

TELL = """
    import json, os, sys
    print(json.dumps([sys.argv[1:], __name__, os.environ["RANK"], sys.executable]))
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(*words):
    """Run one rank of TELL; gives its arguments."""
    args, name, rank, executable = json.loads(good(*words))
    assert (name, rank, executable) == ("__main__", "0", sys.executable)
    return args


def test_script_with_the_ending_of_python(here):
    write(here / "tell.py", TELL)
    assert told("tell.py", "a", "b c", "") == ["a", "b c", ""]


def test_executable_script_with_the_ending_of_python_is_run_by_this_python(here):
    script = write(here / "tell.py", TELL)
    script.write_text("#!/bin/false\n" + script.read_text())
    script.chmod(0o755)
    assert told("tell.py") == []


def test_script_without_ending(here):
    write(here / "tell", TELL)
    assert told("tell", "x") == ["x"]
    assert told("./tell", "x") == ["x"]


def test_script_in_another_directory_finds_its_neighbours(here):
    write(here / "deep" / "tell.py", "import neighbour; print(neighbour.WORD)")
    write(here / "deep" / "neighbour.py", "WORD = 'hello neighbour'")
    assert good("deep/tell.py") == "hello neighbour\n"


def test_executable_with_an_interpreter_line(here):
    program = write(here / "greet", '#!/bin/sh\necho "rank $RANK says $1"\n')
    program.chmod(0o755)
    assert sorted(good("-n", 2, "./greet", "hi").splitlines()) == [
        "[0] rank 0 says hi",
        "[1] rank 1 says hi",
    ]


def test_program_on_the_path():
    assert good("echo", "a", "b c") == "a b c\n"


def test_program_by_its_path():
    assert good("/bin/echo", "hello") == "hello\n"


def test_script_hides_no_program_and_program_no_script(here):
    write(here / "echo", "print('the script')")  # not executable, hence a script
    assert good("./echo") == "the script\n"


def test_a_directory_without_a_program_hides_none(here):
    (here / "printf").mkdir()
    assert good("printf", "hello") == "hello"


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_module(here, method):
    write(here / "tell.py", TELL)
    words = ["--start-method", method, "-m", "tell", "-n", "3"]
    assert told(*words) == ["-n", "3"]


def test_package(here):
    write(here / "package" / "__init__.py", "")
    write(here / "package" / "__main__.py", TELL)
    write(here / "package" / "part.py", TELL)
    assert told("-m", "package", "x") == ["x"]
    assert told("-m", "package.part", "x") == ["x"]
    assert told("--module", "package", "x") == ["x"]


def test_module_of_the_standard_library():
    assert "usage: " in good("-m", "json.tool", "--help")


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_directory(here, method):
    write(here / "app" / "__main__.py", TELL)
    assert told("--start-method", method, "app", "x") == ["x"]
    assert told("--start-method", method, "./app/", "x") == ["x"]


@pytest.mark.parametrize("ending", ["zip", "pyz"])
def test_archive(here, ending):
    source = write(here / "main.py", TELL)
    with zipfile.ZipFile(here / f"app.{ending}", "w") as archive:
        archive.write(source, "__main__.py")
    assert told(f"app.{ending}", "x") == ["x"]


def test_python_itself_as_a_program(here):
    write(here / "tell.py", TELL)
    assert told("--no-python", sys.executable, "tell.py", "x") == ["x"]


def test_no_python_takes_a_script_for_a_program(here):
    program = write(here / "odd.py", "#!/bin/sh\necho this is a shell\n")
    program.chmod(0o755)
    assert good("--no-python", "./odd.py") == "this is a shell\n"


@pytest.mark.parametrize(
    "words",
    [
        ["-n", "4"],
        ["--log-dir", "elsewhere", "-r", "3"],
        ["--help"],
        ["-h"],
        ["--version"],
        ["-m", "other"],
        ["--no-python"],
        ["--nproc_per_node=8"],
        ["x", "--", "-n", "x"],
        ["--no-such-option"],
        ["-"],
        ["run"],
        ["doctor"],
        ["${RANK}", "$HOME", "*"],
    ],
    ids=" ".join,
)
def test_words_after_the_program_are_its_own(here, words):
    write(here / "tell.py", TELL)
    assert told("tell.py", *words) == words
    assert os.listdir(here) == ["tell.py"]


def test_words_after_a_module_are_its_own(here):
    write(here / "tell.py", TELL)
    assert told("-n", "1", "-m", "tell", "-m", "-n", "2", "--help") == ["-m", "-n", "2", "--help"]


def test_double_dash_before_the_program(here):
    write(here / "tell.py", TELL)
    assert told("-n", 1, "--", "tell.py", "-n", "3") == ["-n", "3"]


def test_double_dash_behind_the_program(here):
    """One of a Python program is left out, as by torchrun."""
    write(here / "tell.py", TELL)
    assert told("tell.py", "--", "--r=16") == ["--r=16"]
    assert told("-m", "tell", "--", "--", "x", "--") == ["--", "x", "--"]
    assert told("tell.py", "--", "${local_rank}") == ["0"]
    assert told("tell.py", "--") == []
    assert good("printf", "%s|", "--", "x") == "--|x|"


def test_double_dash_behind_a_command_is_its_own(here):
    write(here / "-x", "kept\n")
    assert good("cat", "--", "-x") == "kept\n"


def test_script_whose_name_begins_with_a_dash(here):
    write(here / "-tell.py", TELL)
    assert told("--", "-tell.py", "x") == ["x"]


@pytest.mark.parametrize(
    "words",
    [
        ["--nproc-per-node", "2", "--log-dir", "logs", "--redirects", "3"],
        ["--nproc_per_node", "2", "--log_dir", "logs", "--redirects", "3"],
        ["--nproc_per_node=2", "--log_dir=logs", "--redirects=3"],
        ["-n2", "--log-dir=logs", "-r3"],
        ["-n", "2", "--log_dir", "logs", "-r", "0:3,1:3", "--local_ranks_filter", "0-1"],
        ["-n", "2", "--log_dir", "logs", "-r", "3", "--start_method", "spawn"],
        ["-n", "2", "--log_dir", "logs", "-r", "3", "--shutdown_timeout", "5"],
    ],
    ids=" ".join,
)
def test_spellings(here, words):
    write(here / "tell.py", TELL)
    assert good(*words, "tell.py") == ""
    assert len(list((here / "logs").rglob("stdout.log"))) == 2


def test_spellings_of_flags(here):
    write(here / "tell.py", TELL)
    assert told("--no_python", sys.executable, "tell.py") == []


def test_environment_of_torchrun(here):
    write(
        here / "env.py",
        """
        import json, os
        wanted = '''RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE
            ROLE_RANK ROLE_NAME ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID
            TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_USE_AGENT_STORE
            TORCHELASTIC_ERROR_FILE TORCH_NCCL_ASYNC_ERROR_HANDLING OMP_NUM_THREADS'''.split()
        print(json.dumps({name: os.environ[name] for name in wanted}))
        """,
    )
    found = {}
    for line in good("-n", 2, "env.py").splitlines():
        found[line[:3]] = json.loads(line[4:])
    first, second = found["[0]"], found["[1]"]
    own = {n for n in first if first[n] != second[n]}
    assert own == {"RANK", "LOCAL_RANK", "ROLE_RANK", "TORCHELASTIC_ERROR_FILE"}
    assert [second[n] for n in ("RANK", "LOCAL_RANK", "ROLE_RANK")] == ["1"] * 3
    assert [second[n] for n in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE")] == ["2"] * 3
    assert second["TORCHELASTIC_USE_AGENT_STORE"] == "False"
    assert 1024 <= int(second["MASTER_PORT"]) < 65536


def test_every_run_gets_a_port_of_its_own(here):
    write(here / "port.py", 'import os; print(os.environ["MASTER_PORT"])')
    assert len({good("port.py") for _ in range(4)}) > 1


@pytest.mark.parametrize("program", ["tell.py", "d", "./d", "d/", "z.pyz", "./z.pyz", "-m tell"])
def test_a_relative_path_holds_after_a_change_of_the_directory(here, program):
    """Names and paths are those of Python itself, and modules beside the program are found."""
    text = """
        import os, sys
        said = [sys.argv[0], sys.path[0], __file__]
        os.chdir("/")
        import beside
        print(*said, beside.__file__)
    """
    for name in ("tell.py", "d/__main__.py", "z/__main__.py"):
        write(here / name, text)
        write((here / name).parent / "beside.py", "")
    with zipfile.ZipFile(here / "z.pyz", "w") as archive:
        for name in ("__main__.py", "beside.py"):
            archive.write(here / "z" / name, name)
    words = program.split()
    assert good(*words) == run_python(*words).stdout
