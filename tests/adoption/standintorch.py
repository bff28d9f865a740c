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
    "distributed/__init__": "",
    "distributed/elastic/__init__": "",
    "distributed/elastic/multiprocessing/__init__": """
        def start_processes(name, entrypoint, args, envs, logs_specs, log_line_prefixes=None):
            return "torch's elastic"
    """,
}


def make(directory):
    """Write the stand-in into a directory; gives the directory."""
    for name, source in MODULES.items():
        write(directory / "torch" / f"{name}.py", source)
    return directory
