"""The usage examples of the originals' documentation, run as they are printed there.

Only their syntax errors are put right (a missing comma, `args:` for `args=`, a missing brace), and
/tmp is another directory.
"""

import os
import signal
import sys
import textwrap

import pytest

from procession.elastic import SignalException, Std, start_processes, to_map
from procession.elastic.errors import ChildFailedError, get_error_handler
from procession.elastic.tail_log import TailLog
from support import run_python, until, write


def example(tmp_path, source, tail=""):
    """Run a printed example as a script, with /tmp led elsewhere; gives what it did."""
    text = textwrap.dedent(source).replace("/tmp/", f"{tmp_path}/") + textwrap.dedent(tail)
    done = run_python(write(tmp_path / "example.py", text), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done


def only(tmp_path, pattern):
    found = list(tmp_path.glob(pattern))
    assert len(found) == 1, list(tmp_path.rglob("*"))
    return found[0].read_text()


USAGE_1 = """
    from procession.elastic import Std, start_processes


    def trainer(a, b, c):
        pass  # train


    # runs two trainers
    # LOCAL_RANK=0 trainer(1,2,3)
    # LOCAL_RANK=1 trainer(4,5,6)
    ctx = start_processes(
        name="trainer",
        entrypoint=trainer,
        args={0: (1, 2, 3), 1: (4, 5, 6)},
        envs={0: {"LOCAL_RANK": 0}, 1: {"LOCAL_RANK": 1}},
        log_dir="/tmp/foobar",
        redirects=Std.ALL,  # write all worker stdout/stderr to a log file
        tee={0: Std.ERR},  # tee only local rank 0's stderr to console
    )

    # waits for all copies of trainer to finish
    ctx.wait()
"""


def test_usage_1_two_trainers_as_a_function(tmp_path):
    """The original knows no `log_dir`, `redirects` or `tee`, and no variable that is a number."""
    example(tmp_path, USAGE_1, "assert ctx.wait().return_values == {0: None, 1: None}")
    assert only(tmp_path, "foobar/*/attempt_0/1/stdout.log") == ""


def test_usage_1_does_what_its_comments_say(tmp_path):
    told = """pass
        import os, sys
        print(os.environ["LOCAL_RANK"], a, b, c)
        print("err of", os.environ["LOCAL_RANK"], file=sys.stderr)
    """
    done = example(tmp_path, USAGE_1.replace("pass  # train", told))
    assert done.stdout == ""
    assert done.stderr == "[trainer0]:err of 0\n"
    assert only(tmp_path, "foobar/*/attempt_0/0/stdout.log") == "0 1 2 3\n"
    assert only(tmp_path, "foobar/*/attempt_0/1/stdout.log") == "1 4 5 6\n"
    assert only(tmp_path, "foobar/*/attempt_0/1/stderr.log") == "err of 1\n"


def test_usage_2_two_echo_workers_as_a_binary(tmp_path):
    """The original needs `envs`, and takes the bare string "hello" for five arguments."""
    done = example(
        tmp_path,
        """
        from procession.elastic import Std, start_processes
        # same as invoking
        # echo hello
        # echo world > stdout.log
        ctx = start_processes(
                name="echo",
                entrypoint="echo",
                log_dir="/tmp/foobar",
                args={0: "hello", 1: "world"},
                redirects={1: Std.OUT},
               )
        """,
        "assert ctx.wait().return_values == {0: None, 1: None}",
    )
    assert done.stdout == "hello\n"
    assert only(tmp_path, "foobar/*/attempt_0/1/stdout.log") == "world\n"


def test_start_processes_two_copies_of_a_function(tmp_path):
    example(
        tmp_path,
        """
        from procession.elastic import start_processes
        def foo(bar):
            return "foo of " + bar
        log_dir = "/tmp/test"

        # ok; two copies of foo: foo("bar0"), foo("bar1")
        ctx = start_processes(
           name="trainer",
           entrypoint=foo,
           args={0:("bar0",), 1:("bar1",)},
           envs={0:{}, 1:{}},
           log_dir=log_dir
        )
        """,
        "assert ctx.wait().return_values == {0: 'foo of bar0', 1: 'foo of bar1'}",
    )


def test_start_processes_two_copies_of_touch(tmp_path):
    example(
        tmp_path,
        """
        from procession.elastic import start_processes
        log_dir = "/tmp/test"
        # ok; two copies of /usr/bin/touch: touch file1, touch file2
        ctx = start_processes(
           name="trainer",
           entrypoint="/usr/bin/touch",
           args={0:("file1",), 1:("file2",)},
           envs={0:{}, 1:{}},
           log_dir=log_dir
         )
        """,
        "assert not ctx.wait().is_failed()",
    )
    assert (tmp_path / "file1").exists()
    assert (tmp_path / "file2").exists()


def test_start_processes_arguments_as_text(tmp_path):
    done = example(
        tmp_path,
        """
        from procession.elastic import start_processes
        log_dir = "/tmp/test"
        # caution; arguments casted to string, runs:
        # echo "1" "2" "3" and echo "[1, 2, 3]"
        ctx = start_processes(
           name="trainer",
           entrypoint="/usr/bin/echo",
           args={0:(1,2,3), 1:([1,2,3],)},
           envs={0:{}, 1:{}},
           log_dir=log_dir
         )
        """,
        "assert not ctx.wait().is_failed()",
    )
    assert sorted(done.stdout.splitlines()) == ["1 2 3", "[1, 2, 3]"]


def test_std_from_str():
    from_str = Std.from_str
    assert from_str("0") == Std.NONE
    assert from_str("1") == Std.OUT
    assert from_str("0:3,1:0,2:1,3:2") == {0: Std.ALL, 1: Std.NONE, 2: Std.OUT, 3: Std.ERR}
    assert from_str("0:3,12:2") == {0: Std.ALL, 12: Std.ERR}  # of torch, one digit only
    with pytest.raises(ValueError, match="any other input"):
        from_str("any other input")


def test_to_map():
    assert to_map(Std.OUT, local_world_size=2) == {0: Std.OUT, 1: Std.OUT}
    assert to_map({1: Std.OUT}, local_world_size=2) == {0: Std.NONE, 1: Std.OUT}
    assert to_map({0: Std.OUT, 1: Std.OUT}, local_world_size=2) == {0: Std.OUT, 1: Std.OUT}


def test_redirect(tmp_path):
    done = example(
        tmp_path,
        """
        import ctypes
        import os
        from procession.elastic.redirects import redirect_stdout
        # syntactic-sugar for redirect("stdout", "tmp/stdout.log")
        with redirect_stdout("/tmp/stdout.log"):
            print("python stdouts are redirected")
            libc = ctypes.CDLL("libc.so.6")
            libc.printf(b"c stdouts are also redirected")
            os.system("echo system stdouts are also redirected")

        print("stdout restored")
        """,
    )
    assert done.stdout == "stdout restored\n"
    told = (tmp_path / "stdout.log").read_text()
    for who in ("python", "c", "system"):
        assert f"{who} stdouts are " in told


def test_tail_log(tmp_path, capsys):
    log_files = {0: f"{tmp_path}/0_stdout.log", 1: f"{tmp_path}/1_stdout.log"}

    def run_trainers():
        write(tmp_path / "0_stdout.log", "log_line1\nlog_line2\nlog_line3\n")
        write(tmp_path / "1_stdout.log", "log_line1\nlog_line2\n")

    tailer = TailLog("trainer", log_files, sys.stdout).start()
    # actually run the trainers to produce 0_stdout.log and 1_stdout.log
    run_trainers()
    tailer.stop()

    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("[trainer0]:")] == [
        "[trainer0]:log_line1",
        "[trainer0]:log_line2",
        "[trainer0]:log_line3",
    ]
    assert [line for line in lines if line.startswith("[trainer1]:")] == [
        "[trainer1]:log_line1",
        "[trainer1]:log_line2",
    ]


def test_record(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    example(
        tmp_path,
        """
        from procession.elastic.errors import record
        @record
        def main():
            pass


        if __name__ == "__main__":
            main()
        """,
    )
    assert not (tmp_path / "error.json").exists()


def test_record_written_out(tmp_path, monkeypatch):
    """What the decorator is said to be equivalent to."""
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))

    def foobar():
        raise LookupError("no foobar")

    def equivalent():
        error_handler = get_error_handler()
        error_handler.initialize()
        try:
            foobar()
        except ChildFailedError as e:
            _, failure = e.get_first_failure()
            error_handler.dump_error_file(failure.error_file, failure.exitcode)
            raise
        except Exception as e:
            error_handler.record_exception(e)
            raise

    with pytest.raises(LookupError):
        equivalent()
    assert "LookupError: no foobar" in (tmp_path / "error.json").read_text()


def test_child_failed_error(tmp_path, monkeypatch):
    """`ChildFailedError("trainer", {1: "trainer_1/error.json"})`; the original takes no path."""
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "trainer_1/error.json", '{"message": "out of data", "timestamp": 12}')
    error = ChildFailedError("trainer", {1: "trainer_1/error.json"})
    rank, failure = error.get_first_failure()
    assert (rank, failure.message, failure.timestamp) == (1, "out of data", 12)
    assert "out of data" in str(error)
    assert file.exists()


def test_wait_and_signal_exception(tmp_path):
    """The typical workflow; the original has no `shutdown`."""
    pc = start_processes(name="sleep", entrypoint="sleep", args={0: ("60",)}, log_dir=str(tmp_path))
    try:
        assert pc.wait(0.01) is None
        os.kill(os.getpid(), signal.SIGTERM)  # .. do some other work
        until(lambda: False, "SignalException")
    except SignalException as e:
        pc.shutdown(e.sigval, timeout=30)
    assert pc.wait().failures[0].exitcode == -signal.SIGTERM
