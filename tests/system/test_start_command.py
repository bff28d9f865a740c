import os
import stat
from pathlib import Path

import procession
from procession import Logs, Std
from support import shell, write


def printed(tmp_path, program, nproc=1, **options):
    """Run a command and give what each rank printed."""
    logs = Logs(dir=tmp_path / "logs", redirect=Std.ALL)
    group = procession.start(program, nproc=nproc, logs=logs, **options)
    with group:
        result = group.wait()
    return [Path(r.stdout_log).read_text() for r in result.ranks]


def test_path_objects(tmp_path):
    script = write(tmp_path / "x.sh", "#!/bin/sh\necho $1\n")
    script.chmod(0o755)
    assert printed(tmp_path, [script, tmp_path]) == [f"{tmp_path}\n"]
    assert printed(tmp_path, script, args=("word",)) == ["word\n"]


def test_arguments_common_and_by_rank(tmp_path):
    echo = ["printf", "%s|"]
    assert printed(tmp_path, echo, 2, args=("a b", "")) == ["a b||"] * 2
    assert printed(tmp_path, echo, 2, args={0: ("x",), 1: ("y", "z")}) == ["x|", "y|z|"]


def test_environment_and_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("GONE", "1")
    program = shell('echo "$RANK ${GONE-none} $NEW $PWD"')
    assert printed(tmp_path, program, 2, env={"GONE": None, "NEW": "n"}, cwd=tmp_path) == [
        f"{rank} none n {tmp_path}\n" for rank in (0, 1)
    ]
    by_rank = printed(tmp_path, shell("echo ${NEW-none}"), 2, env={1: {"NEW": "1"}})
    assert by_rank == ["none\n", "1\n"]


def test_program_is_looked_for_on_the_path_of_its_rank(tmp_path):
    tool = write(tmp_path / "bin" / "rare-tool-of-a-test", "#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    assert printed(tmp_path, ["rare-tool-of-a-test"], 2, env={"PATH": path}) == ["found\n"] * 2


def test_logs_are_private(tmp_path):
    with procession.start(["true"], logs=Logs(dir=tmp_path, redirect=Std.ALL)) as group:
        run_dir = Path(group.wait().run_dir)
    for path in [run_dir, *run_dir.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
