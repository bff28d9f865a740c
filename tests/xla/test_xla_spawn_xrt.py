"""`spawn` on XRT: ranks, their end, and the fallbacks. No TPU takes part in it."""

import os

import pytest
from xlasupport import in_process, no_devices, of_ranks, said_by_ranks, stand_in  # noqa: F401
from xlawork import STAND_IN, calls, exit_at, fail_at, fail_slowly, fall, tell

import procession.xla as xmp
from procession.multiprocessing import ProcessExitedException, ProcessRaisedException
from support import run_python, write


@pytest.fixture
def host(said, monkeypatch):
    """A host with two devices, the second of two workers."""
    monkeypatch.setenv("XRT_TPU_CONFIG", "w;0;h0:8470|w;1;h1:8470")
    monkeypatch.setenv("XRT_LOCAL_WORKER", "w:1")
    monkeypatch.setenv("XRT_SHARD_WORLD_SIZE", "2")
    monkeypatch.setenv("TPU_NUM_DEVICES", "2")
    monkeypatch.setenv("XRT_MESH_SERVICE_ADDRESS", "h0:9999")
    return said


class TestRanks:
    @pytest.mark.parametrize("start_method", ["spawn", "forkserver", "fork"])
    def test_each_has_its_row_of_the_table(self, host, start_method):
        assert xmp.spawn(tell, args=("a", 2), start_method=start_method) is None
        found = sorted(calls(host), key=lambda c: c["args"][0])
        assert [c["args"] for c in found] == [[2, "a", 2], [3, "a", 2]]
        assert len({c["pid"] for c in found} | {os.getpid()}) == 3
        for index, call in enumerate(found):
            assert of_ranks(call["env"]) == {
                "XRT_SHARD_WORLD_SIZE": "4",
                "XRT_SHARD_ORDINAL": str(2 + index),
                "XRT_SHARD_LOCAL_ORDINAL": str(index),
                "XRT_MULTI_PROCESSING_DEVICE": f"TPU:{2 + index}",
                "XRT_LOCAL_WORKER": "w:1",
                "XRT_MESH_SERVICE_ADDRESS": "h0:9999",
            }

    def test_the_first_of_all_keeps_the_configuration(self, host, monkeypatch):
        monkeypatch.delenv("XRT_LOCAL_WORKER")
        xmp.spawn(tell, nprocs=2)
        found = {c["args"][0]: c["env"] for c in calls(host)}
        assert found[0]["XRT_TPU_CONFIG"] == os.environ["XRT_TPU_CONFIG"]
        assert "XRT_TPU_CONFIG" not in found[1]
        assert found[1]["XRT_LOCAL_WORKER"] == "w:0"

    def test_one_free_port_for_all_where_there_is_no_service(self, host, monkeypatch):
        monkeypatch.setenv("XRT_MESH_SERVICE_ADDRESS", "")
        xmp.spawn(tell)
        places = {c["env"]["XRT_MESH_SERVICE_ADDRESS"] for c in calls(host)}
        assert places == {os.environ["XRT_MESH_SERVICE_ADDRESS"]}
        name, _, port = places.pop().partition(":")
        assert name == "localhost"
        assert 1024 < int(port) < 65536


class TestTorchXla:
    def test_replication_is_set_up_between_environment_and_function(self, host, torch_xla):
        xmp.spawn(tell)
        found = calls(host)
        pids = {c["pid"] for c in found}
        assert os.getpid() not in pids
        assert len(pids) == 2
        for pid in pids:
            own = [c for c in found if c["pid"] == pid]
            assert [(c["call"], c["args"][1:]) for c in own[1:]] == [
                ("xla_device", []),
                ("set_replication", [["xla:0"]]),
                ("fn", []),
            ]
            assert own[0]["call"] == "import"
            assert own[0]["env"]["XRT_SHARD_WORLD_SIZE"] == "4"
            assert of_ranks(own[0]["env"]) == of_ranks(own[-1]["env"])

    def test_a_world_of_one_is_not_replicated(self, host, tmp_path, monkeypatch):
        monkeypatch.setenv("PYTHONPATH", STAND_IN)
        monkeypatch.delenv("XRT_SHARD_WORLD_SIZE")
        script = write(tmp_path / "one.py", in_process("spawn", "tell", nprocs=1))
        assert run_python(script).returncode == 0
        assert [c["call"] for c in calls(host)] == ["fn"]


class TestFailures:
    def test_exit_code_17_and_what_happened_on_stderr(self, host, capfd):
        with pytest.raises(ProcessExitedException) as caught:
            xmp.spawn(fail_at, args=(3,))
        assert str(caught.value) == "process 1 terminated with exit code 17"
        assert (caught.value.error_index, caught.value.exit_code) == (1, 17)
        lines = capfd.readouterr().err.splitlines()
        at = lines.index("Exception in device=TPU:3: no more data")
        assert lines[at + 1] == "Traceback (most recent call last):"
        assert "xlawork.py" in lines[at + 2]  # the first frame is the user's
        assert lines[-1] == "ValueError: no more data"

    def test_sixteen_frames_at_most_and_the_last_ones(self, host, capfd):
        with pytest.raises(ProcessExitedException):
            xmp.spawn(fall, args=(40,))
        told = capfd.readouterr().err
        # All fail, and some are ended while they still say so.
        first = max(told.split("Exception in device=")[1:], key=len)
        frames = [line for line in first.splitlines() if line.startswith("  File ")]
        repeated = "Previous line repeated"  # what Python makes of many equal frames
        assert len(frames) <= 16
        if repeated not in first:
            assert len(frames) == 16
        assert "raise RuntimeError" in first

    @pytest.mark.parametrize(
        ("fn", "args", "code"), [(fail_slowly, (3,), 17), (exit_at, (3, 3), 3)]
    )
    def test_exit_codes(self, host, fn, args, code):
        """Also of a failure that takes its time to exit."""
        said = f"process 1 terminated with exit code {code}"
        with pytest.raises(ProcessExitedException, match=said):
            xmp.spawn(fn, args=args)


class TestRefusals:
    def test_counts(self, host):
        with pytest.raises(ValueError, match="must be either 1 or 2, got 3 instead"):
            xmp.spawn(tell, nprocs=3)


class TestOneProcess:
    def test_a_tpu_runs_it_in_the_calling_process_and_ends_that(self, host, tmp_path):
        done = run_python(
            write(tmp_path / "one.py", in_process("spawn", "tell", nprocs=1, args=("x",)))
        )
        assert done.returncode == 0, done.stderr
        (call,) = calls(host)
        assert done.stdout.split() == ["SystemExit", "0", str(call["pid"])]
        assert call["args"] == [2, "x"]  # numbered by devices, as the others are
        assert call["env"]["XRT_SHARD_WORLD_SIZE"] == "2"
        assert call["env"]["XRT_MULTI_PROCESSING_DEVICE"] == "TPU:2"
        assert "XRT_TPU_CONFIG" not in call["env"]

    def test_a_failure_is_17(self, host, tmp_path):
        script = write(tmp_path / "one.py", in_process("spawn", "fail_at", nprocs=1, args=(2,)))
        done = run_python(script)
        assert done.returncode == 17
        assert done.stdout.split()[:2] == ["SystemExit", "17"]
        assert "Exception in device=TPU:2: no more data" in done.stderr

    @pytest.mark.parametrize("nprocs", [None, 1])
    def test_so_it_is_without_a_tpu(self, said, tmp_path, nprocs):
        done = run_python(write(tmp_path / "one.py", in_process("spawn", "tell", nprocs=nprocs)))
        assert done.returncode == 0, done.stderr
        (call,) = calls(said)
        assert done.stdout.split() == ["SystemExit", "0", str(call["pid"])]
        assert call["args"] == [0]
        assert of_ranks(call["env"]) == {}

    def test_without_a_tpu_an_exception_is_an_exception(self, said):
        with pytest.raises(ValueError, match="no more data"):
            xmp.spawn(fail_at, args=(0,))


class TestWithoutTpu:
    def test_more_are_started_plainly(self, said):
        assert xmp.spawn(tell, args=("a",), nprocs=3) is None
        found = calls(said)
        assert sorted(c["args"] for c in found) == [[0, "a"], [1, "a"], [2, "a"]]
        assert all(of_ranks(c["env"]) == {} for c in found)

    def test_their_exceptions_are_told_as_by_start_processes(self, said):
        with pytest.raises(ProcessRaisedException, match="ValueError: no more data") as caught:
            xmp.spawn(fail_at, args=(1,), nprocs=2)
        assert caught.value.error_index == 1

    @pytest.mark.parametrize("nprocs", [0, -1, "2", 1.5])
    def test_counts(self, said, nprocs):
        with pytest.raises(ValueError, match="nprocs must be a count of 1 or more"):
            xmp.spawn(tell, nprocs=nprocs)
