"""A stand-in for torch: the modules, functions and classes that adopting touches, and no more.

The functions tell that they are torch's own by what they return.
"""

from support import write

MODULES = {
    "__init__": "",
    "multiprocessing/__init__": """
        from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException
        from torch.multiprocessing.spawn import ProcessContext, spawn, start_processes
    """,
    "multiprocessing/spawn": """
        class ProcessRaisedException(Exception):
            def __init__(self, msg, error_index, error_pid):
                super().__init__(msg)
                self.error_index, self.error_pid = error_index, error_pid

        class ProcessExitedException(Exception):
            def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
                super().__init__(msg)
                self.error_index, self.exit_code, self.signal_name = (
                    error_index, exit_code, signal_name)

        class ProcessContext:
            def __init__(self, processes, error_files):
                raise AssertionError("torch's own")

        def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
            return "torch's start_processes", nprocs

        def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
            return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
    """,
    "distributed/__init__": """
        class TCPStore:
            ports = iter(range(4444, 5555))

            def __init__(self, address, port, **options):
                self.port = port or next(self.ports)
    """,
    "distributed/launcher/__init__": "from torch.distributed.launcher.api import *",
    "distributed/launcher/api": """
        from dataclasses import dataclass, field

        from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent

        class ChildFailedError(Exception):
            def __init__(self, name, failures):
                super().__init__(name)
                self.name, self.failures = name, failures

        @dataclass
        class LaunchConfig:
            min_nodes: int = 1
            max_nodes: int = 1
            nproc_per_node: int = 2
            logs_specs: object = None
            run_id: str = "here"
            role: str = "default"
            rdzv_endpoint: str = "localhost:0"
            rdzv_backend: str = "c10d"
            rdzv_configs: dict = field(default_factory=dict)
            max_restarts: int = 0
            start_method: str = "spawn"
            log_line_prefix_template: str | None = None
            metrics_cfg: dict = field(default_factory=dict)
            local_addr: str | None = None
            event_log_handler: str = "null"
            signals_to_handle: str = "SIGTERM,SIGINT"
            virtual_local_rank: bool = False
            shutdown_timeout: int = 20

        class elastic_launch:
            def __init__(self, config, entrypoint):
                self._config, self._entrypoint = config, entrypoint

            def __call__(self, *args):
                return launch_agent(self._config, self._entrypoint, list(args))

        def launch_agent(config, entrypoint, args, health_check_server=None):
            return {"torch's": args}
    """,
    "distributed/elastic/__init__": "",
    "distributed/elastic/multiprocessing/__init__": """
        def start_processes(name, entrypoint, args, envs, logs_specs, log_line_prefixes=None):
            return "torch's elastic"
    """,
    "distributed/elastic/agent/__init__": "",
    "distributed/elastic/agent/server/__init__": "",
    "distributed/elastic/agent/server/local_elastic_agent": """
        class LocalElasticAgent:
            def run(self):
                pass
    """,
}


def make(directory):
    """Write the stand-in into a directory; gives the directory."""
    for name, source in MODULES.items():
        write(directory / "torch" / f"{name}.py", source)
    return directory
