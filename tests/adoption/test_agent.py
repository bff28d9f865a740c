"""A `LaunchConfig` as a launch of procession: what is ours, what is torch's, and how it ends."""

import socket
import sys
from types import SimpleNamespace

import pytest
from standintorch import make

from seams.adoption import agent, python_program
from support import run_python, write

pytestmark = pytest.mark.timeout(170)  # seconds at most, where nothing else runs

TORCHS = {"LocalElasticAgent": type("LocalElasticAgent", (), {"__module__": agent.AGENTS})}


def config(**changes):
    plain = {
        "min_nodes": 1,
        "max_nodes": 1,
        "nproc_per_node": 2,
        "rdzv_backend": "c10d",
        "rdzv_endpoint": "localhost:0",
        "rdzv_configs": {},
        "metrics_cfg": {},
        "event_log_handler": "null",
        "virtual_local_rank": False,
    }
    return SimpleNamespace(**{**plain, **changes})


def static(endpoint="127.0.0.1:29500", rank=0):
    return config(
        rdzv_backend="static", rdzv_endpoint=endpoint, rdzv_configs={"rank": rank, "timeout": 900}
    )


@pytest.mark.parametrize("given", [config(), static(), static("[::1]:0")])
def test_one_machine_is_ours(given):
    assert agent.why_not(TORCHS, given, "train", None) == ""


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (config(max_nodes=2), "several machines (1 to 2)"),
        (config(min_nodes=4, max_nodes=4), "several machines"),
        (config(rdzv_backend="etcd"), "rendezvous is 'etcd'"),
        (config(rdzv_backend="mine"), "rendezvous is 'mine'"),
        (static(rank=1), "endpoint"),
        (static("nowhere"), "endpoint 'nowhere'"),
        (config(event_log_handler="console"), "events"),
        (config(metrics_cfg={"x": "y"}), "metrics"),
        (config(virtual_local_rank=True), "virtual local ranks"),
        (config(nproc_per_node=0), "nproc_per_node is 0"),
    ],
)
def test_what_is_left_to_torch(given, why):
    assert why in agent.why_not(TORCHS, given, "train", None)


def test_what_surrounds_a_launch_may_leave_it_to_torch(monkeypatch):
    assert "agent" in agent.why_not({"LocalElasticAgent": object}, config(), "train", None)
    assert "health" in agent.why_not(TORCHS, config(), "train", object())
    assert "nothing to run" in agent.why_not(TORCHS, config(), None, None)
    assert "nothing to run" in agent.why_not(TORCHS, config(), "", None)
    monkeypatch.setenv("TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT", "5")
    assert "uninterruptible sleep" in agent.why_not(TORCHS, config(), "train", None)
    monkeypatch.setenv("TORCHELASTIC_ENABLE_FILE_TIMER", "1")
    assert "watchdog" in agent.why_not(TORCHS, config(), "train", None)
    monkeypatch.setenv("TORCHELASTIC_HEALTH_CHECK_PORT", "1")
    assert "health" in agent.why_not(TORCHS, config(), "train", None)


def test_a_changed_agent_or_rendezvous_is_torchs(monkeypatch):
    """Whoever puts functions of his own into torch's agent wants them to be called."""

    def run(self):
        pass

    def handler(parameters):
        pass

    run.__module__ = handler.__module__ = "torch.distributed.elastic"
    own = type("LocalElasticAgent", (), {"__module__": agent.AGENTS, "run": run})
    registry = SimpleNamespace(_registry={"c10d": handler})
    module = SimpleNamespace(rendezvous_handler_registry=registry)
    monkeypatch.setitem(sys.modules, "torch.distributed.elastic.rendezvous", module)
    assert agent.why_not({"LocalElasticAgent": own}, config(), "train", None) == ""
    handler.__module__ = "mine"
    assert "is made by" in agent.why_not({"LocalElasticAgent": own}, config(), "train", None)
    run.__module__ = "mine"
    assert "changed run of" in agent.why_not({"LocalElasticAgent": own}, config(), "train", None)


def test_python_commands_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "main.py"])
    script = str(write(tmp_path / "train.py", ""))
    program, first = python_program(sys.executable, ["-u", script, "-u", "x"])
    assert (program.path, first) == (script, 2)
    program, first = python_program(sys.executable, ["-u", "-m", "package.train", "x"])
    assert (program.name, first) == ("package.train", 3)
    others = [
        ("sh", ["-u", script]),
        (sys.executable, [script]),
        (sys.executable, ["-u", "-c", "pass"]),
        (sys.executable, ["-u", script, 3]),
        (sys.executable, ["-u"]),
        (sys.executable, ["-u", "-m"]),
        (sys.executable, ["-u", str(tmp_path / "missing.py")]),
    ]
    assert [python_program(*each) for each in others] == [None] * len(others)
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-O", "main.py"])
    assert python_program(sys.executable, ["-u", script]) is None


def test_names_of_what_is_run():
    class Callable:
        def __call__(self):
            pass

    assert agent.entrypoint_name(config, []) == "config"
    assert agent.entrypoint_name(Callable(), []) == "Callable"
    assert agent.entrypoint_name(sys.executable, ["-u", "train.py", "x"]) == "train.py"
    assert agent.entrypoint_name("sh", ["-c", "x"]) == "sh"


def test_launches(tmp_path):
    """Functions, scripts and programs; values, restarts, failures, signals to handle, prefixes."""
    write(
        tmp_path / "train.py",
        """
        import os, sys
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "ROLE_NAME", "TORCHELASTIC_RUN_ID",
                 "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "MASTER_ADDR",
                 "TORCHELASTIC_SIGNALS_TO_HANDLE", "OMP_NUM_THREADS", "MASTER_PORT")
        print(*(os.environ.get(name) for name in names), *sys.argv[1:])
        if "late" in sys.argv and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            sys.exit(3)
        if "bad" in sys.argv and os.environ["RANK"] == "1":
            raise LookupError("not there")
        """,
    )
    source = """
        import glob, os, sys
        import procession, pytest
        from procession.elastic import DefaultLogsSpecs, Std

        procession.adopt()
        from torch.distributed.launcher import LaunchConfig, elastic_launch
        from torch.distributed.launcher.api import ChildFailedError

        def config(where, **more):
            return LaunchConfig(logs_specs=DefaultLogsSpecs(where, redirects=Std.ALL), **more)

        def output(where, attempt=0):
            paths = sorted(glob.glob(f"{where}/*/attempt_{attempt}/*/stdout.log"))
            return [open(path).read().split() for path in paths]

        def who(*words):
            return os.environ["RANK"], words

        def static(port):
            return {"rdzv_backend": "static", "rdzv_endpoint": f"127.0.0.2:{port}",
                    "rdzv_configs": {"rank": 0}}

        got = elastic_launch(config("a"), who)("x", "${local_rank}")
        assert got == {0: ("0", ("x", "0")), 1: ("1", ("x", "1"))}, got
        got = elastic_launch(config("b", **static(4321)), sys.executable)(
            "-u", "train.py", "lr=${local_rank}")
        assert got == {0: None, 1: None}
        said = ["2", "default", "here", "0", "0", "127.0.0.2", "SIGTERM,SIGINT", "None", "4321"]
        assert output("b") == [["0", "0", *said, "lr=0"], ["1", "1", *said, "lr=1"]], output("b")

        got = elastic_launch(config("c", max_restarts=2), sys.executable)("-u", "train.py", "late")
        assert got == {0: None, 1: None}
        # A rank that is ended before it has printed says nothing.
        ports = [{line[10] for line in output("c", n) if line} for n in range(3)]
        assert ports == [{"4445"}, {"4446"}, set()]  # a store for each attempt

        try:
            elastic_launch(config("d"), sys.executable)("-u", "train.py", "bad")
        except ChildFailedError as e:
            assert e.name == "train.py"
            assert [*e.failures] == [1]
            assert e.failures[1].exitcode == 1
            assert "LookupError: not there" in str(e.failures[1].message)
        else:
            raise AssertionError("nothing was raised")
        with pytest.raises(ChildFailedError) as caught:
            elastic_launch(config("e", nproc_per_node=1), "sh")("-c", "kill -9 $$$$")
        assert (caught.value.name, caught.value.failures[0].exitcode) == ("sh", -9)
        assert elastic_launch(config("f", max_nodes=2), who)(1) == {"torch's": [1]}
        template = "${hostname}:${rank}/${local_rank} ${role_name} ${other}|"
        specs = DefaultLogsSpecs("g", tee=Std.OUT)
        elastic_launch(LaunchConfig(logs_specs=specs, log_line_prefix_template=template), "echo")(1)
    """
    script = write(make(tmp_path) / "main.py", source)
    done = run_python(script, timeout=150, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "this launch is left to torch's agent: it is for several machines (1 to 2)" in done.stderr
    )
    assert "of train.py failed; restarts left: 2" in done.stderr
    host = socket.gethostname()
    lines = {f"{host}:{rank}/{rank} default ${{other}}|1" for rank in (0, 1)}
    assert lines <= set(done.stdout.splitlines())
