"""From a forked process to a rank: streams, directory, environment, and exec of a program.

A job is a dict, made by the launcher (see `prepare.jobs`), with these keys:
    rank     its number
    kind     "exec": a program; "python": our bootstrap, in this process; "fresh": our bootstrap, in
             a new interpreter
    env      variables to add to the common environment, or (None) to take away
    fds      role -> index in the list of descriptors; roles are stdin, stdout, stderr, result,
             common, own, tracker, shared
    inherit  indices of the descriptors that pickled arguments refer to
    argv     "exec": the program and its arguments
    program  "python" and "fresh": what the bootstrap runs, see `bootstrap.run`
    title    what `ps` shows of it, if it is Python; see `shown`
    place    its CPUs and limits, if it has its own, see `take_place`
What is common to all ranks of an attempt: `env` (all of it; what "python" is forked from has these
variables already), `cwd`, `umask`, and for "fresh" the interpreter's command line `python`; where
ranks load something once, `shared`, see `shared`.
"""

from __future__ import annotations

import marshal
import os

from procession.system import plain as signal

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

    Job = dict[str, Any]

STREAMS = ("stdin", "stdout", "stderr")
# Python ignores these signals; another program expects their default action.
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def take_place(place: Job) -> None:
    """Take the CPUs and the limits of a rank. Raises OSError.

    place: fields of its `Placement`, and what follows from them here. cgroup: the directory of its
    cgroup. cpus: their numbers. data: RLIMIT_DATA in bytes. Each of them may be left out.
    """
    if "cgroup" in place:
        fd = os.open(f"{place['cgroup']}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        os.write(fd, b"0")
        os.close(fd)
    if "cpus" in place:
        os.sched_setaffinity(0, place["cpus"])
    if "data" in place:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        limit: int = place["data"]
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def prepare(common: Job, job: Job, fds: list[int]) -> Job:
    """Put streams, directory and environment in place.

    Returns the job with descriptors instead of indices. Those of `fds` that belong to other ranks
    are closed, unless an exec will do that. Raises OSError.
    """
    roles: dict[str, int] = job["fds"]
    for target, role in enumerate(STREAMS):
        os.dup2(fds[roles[role]], target)
    os.umask(common["umask"])
    os.chdir(common["cwd"])
    if job["kind"] == "exec":
        return {**job, "env": _environment(common, job)}
    kept = {role: fds[place] for role, place in roles.items() if role not in STREAMS}
    kept_inherited: list[int] = [fds[place] for place in job["inherit"]]
    ready: Job = {**job, "fds": kept, "inherit": kept_inherited}
    if job["kind"] == "python":
        for fd in set(fds) - set(kept.values()) - set(kept_inherited) - {-1}:
            os.close(fd)
        _change_environment(job["env"])
    else:
        ready["env"] = _environment(common, job)
        ready["python"] = common["python"]
    return ready


def _environment(common: Job, job: Job) -> dict[str, str]:
    both: dict[str, Any] = {**common["env"], **job["env"]}
    return {name: value for name, value in both.items() if value is not None}


def replace_environment(env: Mapping[str, str]) -> None:
    """Make `os.environ`, and with it the C library's, equal to `env`."""
    for name in os.environ.keys() - env.keys():
        del os.environ[name]
    _change_environment(env)


def _change_environment(env: Mapping[str, str | None]) -> None:
    """Set variables, or (None) take them away; those that are equal keep their place in memory.

    See `worker.shown`.
    """
    for name, value in env.items():
        if value is None:
            os.environ.pop(name, None)
        elif os.environ.get(name) != value:
            os.environ[name] = value


def execute(job: Job) -> NoReturn:
    """Become the program of the job. Raises OSError if that cannot be done."""
    argv: list[str] = job["argv"] if job["kind"] == "exec" else _fresh_interpreter(job)
    for number in IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    if "/" in argv[0]:
        os.execve(argv[0], argv, job["env"])
    os.execvpe(argv[0], argv, job["env"])


def _fresh_interpreter(job: Job) -> list[str]:
    """Give the command of a new interpreter that runs this job, passed in a memory file."""
    handed: Job = {**job, "kind": "python"}
    del handed["env"], handed["python"]
    fd = os.memfd_create("procession-job", 0)
    os.set_inheritable(fd, True)
    for kept in (*job["fds"].values(), *job["inherit"]):
        os.set_inheritable(kept, True)
    body = memoryview(marshal.dumps(handed))
    while body:
        body = body[os.write(fd, body) :]
    os.lseek(fd, 0, os.SEEK_SET)
    # The title is only for `ps`; the interpreter ignores it.
    return [*job["python"], str(fd), job["title"]]
