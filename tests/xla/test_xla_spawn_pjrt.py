"""`spawn` on PJRT: ranks, their end, and what torch_xla is asked. No TPU takes part in it."""

import os
import sys
from pathlib import Path

import pytest
from xlasupport import (  # noqa: F401
    in_process,
    no_devices,
    of_ranks,
    one_tpu_host,
    said_by_ranks,
    stand_in,
)
from xlawork import STAND_IN, calls, exit_at, fail_at, tell

import procession.xla as xmp
from procession.multiprocessing import ProcessContext, ProcessExitedException
from support import run_python, write

sys.path.insert(0, str(Path(__file__).parent.parent / "devices"))
from test_devices_metadata import service


@pytest.fixture
def two_hosts(v4_8, monkeypatch):
    """The second host of a TPU with two."""
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v4-16")
    monkeypatch.setenv("TPU_WORKER_ID", "1")
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "10.0.0.1,10.0.0.2")
    return v4_8


OURS = ("PJRT_LOCAL", "TPU_VISIBLE", "TPU_PROCESS", "TPU_CHIPS", "CLOUD_TPU")


class TestRanks:
    @pytest.mark.parametrize("start_method", ["spawn", "fork"])
    def test_each_has_its_row_of_the_table(self, two_hosts, start_method):
        assert xmp.spawn(tell, args=("a",), start_method=start_method) is None
        found = {c["args"][0]: c for c in calls(two_hosts)}
        addresses = ",".join(f"10.0.0.{h}:{p}" for h in (1, 2) for p in range(8476, 8480))
        assert sorted(found) == [4, 5, 6, 7]
        for rank in range(4):
            assert found[4 + rank]["args"] == [4 + rank, "a"]
            assert of_ranks(found[4 + rank]["env"], *OURS) == {
                "PJRT_LOCAL_PROCESS_RANK": str(rank),
                "PJRT_LOCAL_PROCESS_COUNT": "4",
                "TPU_VISIBLE_CHIPS": str(rank),
                "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1",
                "TPU_PROCESS_BOUNDS": "2,2,2",
                "CLOUD_TPU_TASK_ID": str(4 + rank),
                "TPU_PROCESS_PORT": str(8476 + rank),
                "TPU_PROCESS_ADDRESSES": addresses,
            }

    def test_the_topology_is_asked_for(self, said, monkeypatch):
        monkeypatch.setenv("PJRT_DEVICE", "TPU")
        attributes = {
            "tpu-env": "ACCELERATOR_TYPE: 'v5litepod-4'\nTPU_PROCESS_BOUNDS: '1,1,1'\n"
            "TPU_CHIPS_PER_PROCESS_BOUNDS: '2,2,1'\nWORKER_ID: '0'\n",
            "worker-network-endpoints": "w:1:10.0.0.1",
        }
        with service(attributes) as (address, _):
            monkeypatch.setenv("GCE_METADATA_HOST", address)
            xmp.spawn(tell)
        found = calls(said)
        assert sorted(c["args"][0] for c in found) == [0, 1, 2, 3]
        assert {c["env"]["TPU_PROCESS_BOUNDS"] for c in found} == {"2,2,1"}

    def test_without_join_there_is_something_to_join(self, v4_8):
        context = xmp.spawn(tell, join=False)
        assert isinstance(context, ProcessContext)
        while not context.join(timeout=20):
            pass
        assert len(set(context.pids())) == 4

    @pytest.mark.parametrize("kind", ["CPU", "CUDA", "NEURON"])
    def test_other_devices_have_one_process(self, said, monkeypatch, kind):
        monkeypatch.setenv("PJRT_DEVICE", kind)
        xmp.spawn(tell)
        (call,) = calls(said)
        assert call["args"] == [0]
        assert call["pid"] != os.getpid()
        assert call["env"]["PJRT_LOCAL_PROCESS_COUNT"] == "1"

    def test_neuron_has_as_many_as_it_says(self, said, monkeypatch):
        monkeypatch.setenv("PJRT_DEVICE", "NEURON")
        monkeypatch.setenv("NEURONCORE_NUM_DEVICES", "2")
        xmp.spawn(tell)
        found = sorted(calls(said), key=lambda c: c["args"])
        assert [c["env"]["NEURON_RT_VISIBLE_CORES"] for c in found] == ["0", "1"]
        assert [c["env"]["NEURON_PJRT_PROCESS_INDEX"] for c in found] == ["0", "1"]
        assert len({c["env"]["NEURON_RT_ROOT_COMM_ID"] for c in found}) == 1


@pytest.mark.usefixtures("torch_xla")
class TestTorchXla:
    def test_nothing_is_asked_of_it_before_the_environment_is_set(self, v4_8):
        xmp.spawn(tell)
        found = calls(v4_8)
        assert os.getpid() not in {c["pid"] for c in found}
        for pid in {c["pid"] for c in found}:
            own = [c for c in found if c["pid"] == pid]
            assert own[0]["call"] == "import"
            assert {"TPU_VISIBLE_CHIPS", *own[-1]["env"]} >= own[0]["env"].keys()
            assert of_ranks(own[0]["env"], *OURS) == of_ranks(own[-1]["env"], *OURS)
            assert [c["call"] for c in own[1:]] == [
                "get_xla_supported_devices",
                "device",
                "set_replication",
                "_init_world_size_ordinal",
                "global_ordinal",
                "fn",
            ]

    def test_several_devices_of_a_process_are_refused(self, v4_8, monkeypatch):
        monkeypatch.setenv("XLA_DEVICES", "2")
        with pytest.raises(RuntimeError, match=r"2 XLA devices, as on a TPU v2 or v3"):
            xmp.spawn(tell)

    def test_ranks_are_not_started_where_it_holds_the_devices(self, v4_8, tmp_path, monkeypatch):
        monkeypatch.setenv("PYTHONPATH", STAND_IN)
        monkeypatch.setenv("XLA_IS_OPEN", "1")
        script = in_process("spawn", "tell").replace("import xlawork", "import torch_xla, xlawork")
        done = run_python(write(tmp_path / "open.py", script))
        assert done.returncode == 1
        assert "RuntimeError: the XLA runtime is initialized in this process" in done.stderr
        assert not calls(v4_8, "fn")


class TestFailures:
    def test_the_ranks_exception_is_raised_here_at_once(self, v4_8):
        with pytest.raises(ValueError, match=r"^no more data") as caught:
            xmp.spawn(fail_at, args=(3,))  # the others would sleep for a minute
        assert [entry.name for entry in caught.traceback][-1] == "fail_at"
        assert "-- Process 3 terminated with the following error:" in str(caught.value.__cause__)

    def test_a_good_exit_ends_its_rank_and_nothing_else(self, v4_8):
        assert xmp.spawn(exit_at, args=(2, 0)) is None
        assert len(calls(v4_8)) == 4

    def test_exit_codes_stay(self, v4_8):
        with pytest.raises(ProcessExitedException) as caught:
            xmp.spawn(exit_at, args=(2, 3))
        assert str(caught.value) == "process 2 terminated with exit code 3"


class TestOneProcess:
    def test_it_is_this_one_and_goes_on(self, v4_8, tmp_path):
        done = run_python(write(tmp_path / "one.py", in_process("spawn", "tell", nprocs=1)))
        assert done.returncode == 0, done.stderr
        (call,) = calls(v4_8)
        assert done.stdout.split() == ["returned", "in", str(call["pid"])]
        assert call["args"] == [0]
        assert of_ranks(call["env"], *OURS) == {
            "PJRT_LOCAL_PROCESS_COUNT": "1",
            "TPU_VISIBLE_CHIPS": "0",
            "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1",
            "TPU_PROCESS_BOUNDS": "1,1,1",
        }


class TestRefusals:
    @pytest.mark.parametrize("n", [0, 2, 4])
    def test_counts(self, v4_8, n):
        with pytest.raises(ValueError, match=rf"^Unsupported nprocs \({n}\)\. "):
            xmp.spawn(tell, nprocs=n)
        assert not calls(v4_8)
