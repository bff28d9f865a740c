"""`launch`, the wrappers, and the public face. No TPU takes part in it."""

import inspect
import os

import pytest
from xlasupport import in_process, no_devices, of_ranks, one_tpu_host, said_by_ranks  # noqa: F401
from xlawork import calls, fail_at, tell

import procession.xla as xmp
from support import run_procession, run_python, write


def test_names_and_parameters():
    assert sorted(xmp.__all__) == ["MpModelWrapper", "MpSerialExecutor", "launch", "spawn"]
    said = [str(inspect.signature(each)).partition(" ->")[0] for each in (xmp.spawn, xmp.launch)]
    unquoted = [text.replace("'", "") for text in said]
    assert unquoted == [
        "(fn: Callable[..., Any], args: Iterable[Any] = (), nprocs: int | None = None, "
        "join: bool = True, daemon: bool = False, start_method: str = spawn)",
        "(fn: Callable[..., Any], args: Iterable[Any] = (), start_method: str = spawn, "
        "debug_single_process: bool = False)",
    ]


class TestLaunch:
    def test_a_rank_for_each_chip(self, v4_8):
        assert xmp.launch(tell, args=("x",)) is None
        assert sorted(c["args"] for c in calls(v4_8)) == [[r, "x"] for r in range(4)]

    def test_an_exception_is_raised_here(self, v4_8):
        with pytest.raises(ValueError, match=r"^no more data"):
            xmp.launch(fail_at, args=(1,))

    def test_a_single_process_is_this_one_and_goes_on(self, v4_8, tmp_path):
        script = in_process("launch", "tell", debug_single_process=True)
        done = run_python(write(tmp_path / "one.py", script))
        assert done.returncode == 0, done.stderr
        (call,) = calls(v4_8)
        assert done.stdout.split() == ["returned", "in", str(call["pid"])]
        assert call["env"]["TPU_PROCESS_BOUNDS"] == "1,1,1"

    def test_without_a_set_up_it_is_one_process_on_the_cpu(self, said):
        xmp.launch(tell)
        (call,) = calls(said)
        assert call["pid"] != os.getpid()
        assert of_ranks(call["env"], "PJRT_") == {
            "PJRT_DEVICE": "CPU",
            "PJRT_LOCAL_PROCESS_RANK": "0",
            "PJRT_LOCAL_PROCESS_COUNT": "1",
        }

    @pytest.mark.parametrize("flag", ["1", "true", "2"])
    def test_spmd_is_refused(self, v4_8, monkeypatch, flag):
        monkeypatch.setenv("XLA_USE_SPMD", flag)
        with pytest.raises(NotImplementedError, match="SPMD"):
            xmp.launch(tell)
        assert not calls(v4_8)

    def test_a_rank_of_torchrun_is_called_with_its_global_number(self, v4_8, monkeypatch):
        for name, value in {
            "TORCHELASTIC_RUN_ID": "x",
            "RANK": "6",
            "LOCAL_RANK": "2",
            "WORLD_SIZE": "8",
        }.items():
            monkeypatch.setenv(name, value)
        xmp.launch(tell, args=("a",))
        (call,) = calls(v4_8)
        assert call["args"] == [6, "a"]
        assert call["pid"] == os.getpid()

    def test_ranks_of_the_command(self, v4_8, tmp_path):
        script = write(tmp_path / "train.py", in_process("launch", "tell"))
        done = run_procession("run", "-n", 2, script)
        assert done.returncode == 0, done.stderr
        assert sorted(c["args"] for c in calls(v4_8)) == [[0], [1]]


WRAPPED = """
    import os, sys, time
    import procession.xla as xmp

    class Model:
        '''Notes who moves it, and when.'''

        def to(self, device):
            self._note('in')
            time.sleep(0.05)  # long enough for another rank to come between, if it could
            self._note('out')

        def _note(self, what):
            fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(fd, f'{{what}} {{os.getpid()}}\\n'.encode())

    def move(index, model):
        assert model.to('xla:0') is model._model

    def load(index, executor, model):
        assert executor.run(lambda: model.to('xla:0') or 'value') == 'value'

    if __name__ == '__main__':
        {start}
"""


@pytest.mark.parametrize(
    "start",
    [
        "xmp.launch(move, args=(xmp.MpModelWrapper(Model()),))",
        "xmp.launch(move, args=(xmp.MpModelWrapper(Model()),), start_method='fork')",
        "xmp.launch(load, args=(xmp.MpSerialExecutor(), Model()))",
        "xmp.launch(load, args=(xmp.MpSerialExecutor(), Model()), start_method='fork')",
    ],
)
def test_ranks_take_turns(v4_8, tmp_path, start):
    notes = tmp_path / "notes"
    done = run_python(write(tmp_path / "turns.py", WRAPPED.format(start=start)), notes)
    assert done.returncode == 0, done.stderr
    lines = notes.read_text().splitlines()
    assert len(lines) == 8
    for entered, left in zip(lines[::2], lines[1::2], strict=True):
        assert entered.replace("in", "out") == left


README_EXAMPLE = """
    import procession.xla as xmp

    WRAPPED_MODEL = xmp.MpModelWrapper(object())
    SERIAL_EXEC = xmp.MpSerialExecutor()

    def _mp_fn(index, flags):
        data = SERIAL_EXEC.run(lambda: list(range(4)))
        print(f"{index} {flags['lr']} {len(data)}", flush=True)

    if __name__ == '__main__':
        xmp.spawn(_mp_fn, args=({'lr': 0.1},), start_method='fork')
"""


def test_the_originals_examples_run(v4_8, tmp_path):
    done = run_python(write(tmp_path / "example.py", README_EXAMPLE))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"{r} 0.1 4" for r in range(4)]
