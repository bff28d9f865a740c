"""Where output goes: `Std`, `LogsSpecs`, the layout of `DefaultLogsSpecs`, and what users make."""

import os
import re
import sys
from pathlib import Path

import pytest
from elasticwork import fail, say

import procession
from procession.elastic import (
    DefaultLogsSpecs,
    LogsDest,
    LogsSpecs,
    Std,
    start_processes,
)
from procession.elastic.api import get_std_cm
from procession.elastic.redirects import redirect_stdout
from support import run_python, write


def run(entrypoint, args, specs, **options):
    pc = start_processes("work", entrypoint, args, {r: {} for r in args}, specs, **options)
    result = pc.wait(60)
    assert not result.is_failed(), result
    return pc


def read(path):
    return Path(path).read_text()


# -- Std, to_map


def test_std_is_that_of_the_library():
    assert Std is procession.Std
    assert [(s.name, int(s)) for s in (Std.NONE, Std.OUT, Std.ERR, Std.ALL)] == [
        ("NONE", 0),
        ("OUT", 1),
        ("ERR", 2),
        ("ALL", 3),
    ]
    assert Std.OUT | Std.ERR == Std.ALL


# -- DefaultLogsSpecs


def test_a_missing_directory_is_made(tmp_path):
    specs = DefaultLogsSpecs(str(tmp_path / "a/b"))
    assert (tmp_path / "a/b").is_dir()
    assert specs.root_log_dir == str(tmp_path / "a/b")
    assert isinstance(specs, LogsSpecs)


def test_a_file_is_no_directory(tmp_path):
    with pytest.raises(NotADirectoryError, match="log_dir"):
        DefaultLogsSpecs(str(write(tmp_path / "file", "")))


def test_no_directory_is_a_temporary_one(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    specs = DefaultLogsSpecs()
    assert re.fullmatch(rf"{tmp_path}/torchelastic_\w+", specs.root_log_dir)
    assert os.path.isdir(specs.root_log_dir)


def test_equal_by_value(tmp_path):
    one, two = DefaultLogsSpecs(str(tmp_path), Std.OUT), DefaultLogsSpecs(str(tmp_path), Std.OUT)
    assert one == two
    assert one != DefaultLogsSpecs(str(tmp_path), Std.ERR)
    assert one != "something else"
    assert repr(one) == (
        f"DefaultLogsSpecs(root_log_dir={tmp_path}, redirects={Std.OUT}, tee={Std.NONE}, "
        "local_ranks_filter=None)"
    )


def test_layout(tmp_path):
    specs = DefaultLogsSpecs(str(tmp_path), redirects={0: Std.OUT, 2: Std.ALL}, tee={1: Std.ERR})
    common = {"TORCHELASTIC_RUN_ID": "run_7", "TORCHELASTIC_RESTART_COUNT": "2"}
    envs = {rank: dict(common) for rank in range(3)}
    dest = specs.reify(envs)
    attempt = os.path.dirname(dest.filtered_stdout)
    assert re.fullmatch(rf"{tmp_path}/run_7_\w+/attempt_2", attempt)
    assert dest == LogsDest(
        stdouts={0: f"{attempt}/0/stdout.log", 1: "", 2: f"{attempt}/2/stdout.log"},
        stderrs={0: "", 1: f"{attempt}/1/stderr.log", 2: f"{attempt}/2/stderr.log"},
        tee_stdouts={},
        tee_stderrs={1: f"{attempt}/1/stderr.log"},
        error_files={rank: f"{attempt}/{rank}/error.json" for rank in range(3)},
        filtered_stdout=f"{attempt}/filtered_stdout.log",
        filtered_stderr=f"{attempt}/filtered_stderr.log",
    )
    assert sorted(os.listdir(attempt)) == ["0", "1", "2"]
    for rank in range(3):  # what subclasses rely on
        assert envs[rank] == {**common, "TORCHELASTIC_ERROR_FILE": f"{attempt}/{rank}/error.json"}


def test_the_run_is_made_once_and_the_attempt_anew(tmp_path):
    specs = DefaultLogsSpecs(str(tmp_path))
    first = specs.reify({0: {}})
    assert "/test_run_id_" in first.error_files[0]
    assert first.error_files[0].endswith("/attempt_0/0/error.json")
    write(Path(first.error_files[0]), "old")
    second = specs.reify({0: {"TORCHELASTIC_RESTART_COUNT": "0"}})
    assert second == first
    assert not os.path.exists(first.error_files[0])
    third = specs.reify({0: {"TORCHELASTIC_RESTART_COUNT": "1"}})
    assert third.error_files[0] == first.error_files[0].replace("attempt_0", "attempt_1")
    assert len(os.listdir(tmp_path)) == 1


def test_ranks_that_are_not_shown(tmp_path):
    specs = DefaultLogsSpecs(str(tmp_path), Std.NONE, {0: Std.OUT, 1: Std.OUT}, {0})
    dest = specs.reify({0: {}, 1: {}})
    assert dest.tee_stdouts == {0: dest.stdouts[0]}
    assert dest.stdouts[1].endswith("/1/stdout.log")
    assert dest.stderrs == {0: "", 1: os.devnull}


def test_devnull_is_no_files_at_all(tmp_path, capfd):
    specs = DefaultLogsSpecs(os.devnull, redirects=Std.ALL, tee=Std.ALL)
    pc = run(say, {0: ("out", "err")}, specs, duplicate_stdout_filters=["out"])
    assert (pc.stdouts, pc.stderrs, pc.error_files) == ({0: ""}, {0: ""}, {0: os.devnull})
    assert capfd.readouterr() == ("out\n", "err\n")
    failing = start_processes("fail", fail, {0: ()}, {0: {}}, specs)
    failure = failing.wait().failures[0]
    assert failure.error_file == "<N/A>"
    assert "ValueError: no such batch" in failure.message
    assert list(tmp_path.iterdir()) == []


# -- on the console and in files


@pytest.mark.parametrize("kind", ["function", "program"])
def test_redirect_and_tee(tmp_path, capfd, kind):
    specs = DefaultLogsSpecs(
        str(tmp_path), redirects={0: Std.ERR, 2: Std.ALL}, tee={0: Std.OUT, 1: Std.ERR}
    )
    if kind == "function":
        pc = run(say, {r: (f"out{r}", f"err{r}") for r in range(3)}, specs)
    else:
        script = "echo out$0; echo err$0 >&2"
        pc = run("sh", {r: ("-c", script, r) for r in range(3)}, specs)
    console = capfd.readouterr()
    assert sorted(console.out.splitlines()) == ["[work0]:out0", "out1"]
    assert sorted(console.err.splitlines()) == ["[work1]:err1"]
    assert [p and read(p) for p in pc.stdouts.values()] == ["out0\n", "", "out2\n"]
    assert [p and read(p) for p in pc.stderrs.values()] == ["err0\n", "err1\n", "err2\n"]


def test_what_is_not_shown_is_dropped(tmp_path, capfd):
    specs = DefaultLogsSpecs(str(tmp_path), tee={0: Std.OUT, 1: Std.OUT}, local_ranks_filter={1})
    pc = run(say, {r: (f"out{r}", f"err{r}") for r in range(2)}, specs)
    console = capfd.readouterr()
    assert console.out == "[work1]:out1\n"
    assert console.err == "err1\n"
    assert read(pc.stdouts[0]) == "out0\n"


def test_filtered_copies(tmp_path, capfd):
    specs = DefaultLogsSpecs(str(tmp_path), redirects={2: Std.ALL}, tee={0: Std.ALL, 1: Std.ALL})
    script = "echo loss $0; echo other $0; echo loss $0 >&2; echo warn $0 >&2"
    pc = run(
        "sh",
        {r: ("-c", script, r) for r in range(3)},
        specs,
        log_line_prefixes={1: "[one]:"},
        duplicate_stdout_filters=["loss", "nowhere"],
        duplicate_stderr_filters=["warn"],
    )
    attempt = Path(pc.stdouts[0]).parent.parent
    found = [read(attempt / f"filtered_{name}.log").splitlines() for name in ("stdout", "stderr")]
    assert sorted(found[0]) == ["[one]:loss 1", "[work0]:loss 0"]
    assert sorted(found[1]) == ["[one]:warn 1", "[work0]:warn 0"]
    assert len(capfd.readouterr().out.splitlines()) == 4  # the console has all that is teed


# -- what users make


class Flat(LogsSpecs):
    """Plans paths of its own, as a user's would: all files side by side."""

    @property
    def root_log_dir(self):
        return self._root_log_dir

    def reify(self, envs):
        place = Path(self._root_log_dir)
        dest = LogsDest()
        for rank in envs:
            dest.stdouts[rank] = dest.tee_stdouts[rank] = str(place / f"worker-{rank}.out")
            dest.stderrs[rank] = str(place / "all.err")
            dest.error_files[rank] = str(place / f"worker-{rank}.reply")
            envs[rank]["TORCHELASTIC_ERROR_FILE"] = dest.error_files[rank]
            envs[rank]["ADDED"] = "by reify"
        return dest


def test_logs_specs_of_ones_own(tmp_path, capfd):
    specs = Flat(str(tmp_path / "logs/here"))
    pc = run("sh", dict.fromkeys(range(2), ("-c", "echo $ADDED; echo err >&2")), specs)
    assert pc.stdouts == {r: str(tmp_path / f"logs/here/worker-{r}.out") for r in range(2)}
    assert [read(path) for path in pc.stdouts.values()] == ["by reify\n"] * 2
    assert read(tmp_path / "logs/here/all.err") == "err\nerr\n"
    assert sorted(capfd.readouterr().out.splitlines()) == ["[work0]:by reify", "[work1]:by reify"]


# -- get_std_cm


def test_get_std_cm(tmp_path):
    script = write(
        tmp_path / "script.py",
        """
        from procession.elastic.api import get_std_cm
        from procession.elastic.redirects import redirect_stdout

        with get_std_cm("", redirect_stdout):
            print("console")
        with get_std_cm("out.log", redirect_stdout):
            print("file")
        """,
    )
    assert run_python(script, cwd=tmp_path).stdout == "console\n"
    assert read(tmp_path / "out.log") == "file\n"
    with get_std_cm("", redirect_stdout) as nothing:
        assert nothing is None
    assert sys.stdout is not None
