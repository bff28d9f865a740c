"""`procession doctor`: tries what procession needs of this machine, and names what is missing.

A finding's mark:

    ok          it is there
    falls back  it is not, or there is little of it, and procession does something else instead
    missing     it is not there; without some of these procession does not work
    -           a fact
"""

from __future__ import annotations

import importlib.metadata
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress

from procession.cli.commands import parser_of
from procession.cli.say import say_out
from procession.cli.steer.finding import read_alone
from procession.cli.words import Option
from procession.devices.kinds import KINDS
from procession.system import accelerators, files
from procession.system.cgroups import OomWatch, cgroups
from procession.system.directories import (
    Refused,
    open_runtime,
    runtime_directory,
    state_directory,
)
from procession.system.identity import proc_is_ours
from procession.system.inotify import Inotify
from procession.system.prctl import become_subreaper, die_with_parent
from procession.values.base import Value
from procession.values.figures import fold_ranks, size

FDS_PER_RANK = 6  # with prefixed output: two streams, result, pidfd, and the other ends meanwhile
FDS_BESIDE = 32
MB, GB = 10**6, 10**9
UNABLE = "cannot launch anything"
DEVICES = "the device files' group (render, video) for this user, or a container's --device, --gpus"
LINUX = "Linux 5.4 or newer; in a container, a seccomp profile that allows it"


class Finding(Value):
    """One thing: what is there, in words.

    instead: what procession does without it. advice: what the user may do. needed: nothing works
    without it.
    """

    key: str
    thing: str
    value: str
    mark: str = "-"
    instead: str = ""
    advice: str = ""
    needed: bool = False


def judged(
    key: str, thing: str, why: str, instead: str, advice: str, works: str = "works"
) -> Finding:
    """Judge a feature. why: it does not work, "" if it does. instead: "" where it is needed."""
    if not why:
        return Finding(key, thing, works, "ok", needed=not instead)
    mark = "falls back" if instead else "missing"
    return Finding(key, thing, why, mark, instead or UNABLE, advice, not instead)


# -- features: each is really used, for a container's seccomp filter may refuse what the kernel has


def _pidfd() -> None:
    fd = os.pidfd_open(os.getpid())
    signal.pidfd_send_signal(fd, 0)
    with suppress(ChildProcessError):  # it is no child of its own
        os.waitid(os.P_PIDFD, fd, os.WEXITED | os.WNOHANG)


def _control() -> None:
    """Make the user's directory for sockets of runs, as a launch does."""
    open_runtime(make=True)
    with suppress(OSError):  # runs are in it
        os.rmdir(runtime_directory())


def _state() -> None:
    """Make a directory in that of records, as a run that is detached does."""
    place = state_directory()
    if not place:
        raise Refused("this user has no home directory")
    os.makedirs(place, 0o700, exist_ok=True)
    os.rmdir(tempfile.mkdtemp(prefix=".doctor-", dir=place))


def _proc() -> None:
    if not proc_is_ours():
        raise Refused("it is not there, or shows the processes of another namespace")


# key, thing, what uses it, what procession does without it ("" where it is needed), what helps
FEATURES: tuple[tuple[str, str, Callable[[], object], str, str], ...] = (
    ("pidfd", "pidfd_open, pidfd_send_signal, waitid(P_PIDFD)", _pidfd,
     "hears of deaths from the agent alone, and signals by number", LINUX),
    ("subreaper", "prctl(PR_SET_CHILD_SUBREAPER)", become_subreaper, "", LINUX),
    ("parent_death_signal", "prctl(PR_SET_PDEATHSIG)", lambda: die_with_parent(0), "", LINUX),
    ("memfd_create", "memfd_create", lambda: os.memfd_create("procession-doctor"), "", LINUX),
    ("eventfd", "eventfd", lambda: os.eventfd(0), "", LINUX),
    ("inotify", "inotify", lambda: Inotify().add("/"),  # every user may read this directory
     "looks at files every 0.1 s", "raise fs.inotify.max_user_* by sysctl"),
    ("proc_children", "/proc/<pid>/task/<tid>/children",
     lambda: os.open("/proc/thread-self/children", os.O_RDONLY), "",
     "a kernel with CONFIG_PROC_CHILDREN"),
    ("proc", "/proc of this namespace of pids", _proc, "", "mount -t proc proc /proc"),
    ("control", "directory for sockets of runs", _control,
     "runs all the same, but `procession ps`, `stacks`, `attach` and `stop` do not see it",
     "set XDG_RUNTIME_DIR, or TMPDIR, to a directory of this user's own"),
    ("state", "directory for records of runs", _state,
     "keeps no list of runs that are over, and needs --log-dir for --detach",
     "set HOME, or XDG_STATE_HOME, to a directory that this user may write to"),
)  # fmt: skip


def why_not(trial: Callable[[], object]) -> str:
    """Use a feature; gives why it does not work, "" if it does."""
    try:
        trial()
    except OSError as e:
        return e.strerror or str(e)
    except (AttributeError, Refused) as e:  # this Python may have been built without it
        return str(e)
    return ""


def kernel() -> list[Finding]:
    """Try the features of the kernel, and the user's directories."""
    found = [Finding("kernel", "kernel", os.uname().release)]
    for key, thing, trial, instead, advice in FEATURES:
        found.append(judged(key, thing, why_not(trial), instead, advice))
    watch = OomWatch()
    why = "of the whole machine" if watch.whole_machine else "" if watch.source else "none"
    instead = "may not tell, or tell wrongly, that a rank was killed because memory ran out"
    advice = "a memory cgroup of its own, to be seen in /sys/fs/cgroup"
    oom = judged("oom_kill", "count of OOM kills of this cgroup", why, instead, advice)
    return [*found, oom]


def limits() -> list[Finding]:
    """Look at how much this process may use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ranks = 1 << 20 if soft < 0 else max(0, soft - FDS_BESIDE) // FDS_PER_RANK
    cores, groups = sorted(os.sched_getaffinity(0)), cgroups()
    files_, quota, most = f"{soft}, for about {ranks} ranks", groups.cores(), groups.memory()
    cpus = f"{quota:g}" if quota else "no limit"
    return [
        judged("open_files", "open files", files_ if ranks < len(cores) else "",
               "ends a group that it cannot open descriptors for, and says so",
               f"ulimit -n {hard}" if hard != soft else "ask for a higher hard limit", files_),
        Finding("cores", "cores for this process", fold_ranks(cores)),
        judged("quota", "CPU quota (cgroup)", cpus if quota and quota < len(cores) else "",
               f"counts {len(cores)} cores for OMP_NUM_THREADS: too many threads",
               "set OMP_NUM_THREADS to the quota divided by the number of ranks", cpus),
        Finding("memory", "memory", size(files.field("/proc/meminfo", "MemTotal") or 0)),
        Finding("cgroup_memory", "memory (cgroup)", size(most) if most else "no limit"),
        _space("shm", "/dev/shm", GB,  # noqa: S108 - only looked at
               "does not notice: ranks that share tensors may die of SIGBUS",
               "docker run --shm-size=8g, or --ipc=host"),
        _space("tmp", os.environ.get("TMPDIR", "/tmp"), 100 * MB,  # noqa: S108 - only looked at
               "cannot keep what ranks write there", "make room, or set TMPDIR"),
    ]  # fmt: skip


def _space(key: str, place: str, least: int, instead: str, advice: str) -> Finding:
    try:
        found = os.statvfs(place)
    except OSError as e:
        return judged(key, place, str(e.strerror), instead, advice)
    free = found.f_bavail * found.f_frsize
    value = f"{size(free)} free of {size(found.f_blocks * found.f_frsize)}"
    return judged(key, place, value if free < least else "", instead, advice, value)


def devices() -> list[Finding]:
    """Look for accelerators."""
    found: list[Finding] = []
    for kind in accelerators.find():
        here = f"{kind.count}" if kind.count == kind.known else f"{kind.count} of {kind.known}"
        names = [name for k in KINDS.values() if k.found_as == kind.kind for name in k.lists]
        chosen = [f"{name}={os.environ[name]}" for name in names if name in os.environ]
        text = "; ".join([here, *(d.name for d in kind.devices), *chosen])
        why = "; ".join([text, *kind.faults]) if kind.faults else ""
        instead = "leaves it to the program, which may not find them"
        found.append(judged(kind.kind.lower(), kind.kind, why, instead, DEVICES, text))
    return found or [Finding("none", "accelerators", "none found")]


def python() -> list[Finding]:
    """Look at the interpreter and the packages."""
    versions = {"python": sys.version.split()[0], "executable": sys.executable}
    for name in ("procession", "cloudpickle", "tblib", "numpy", "torch", "jax", "ray"):
        versions[name] = "not installed"
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    titles = {"python": "Python", "executable": "interpreter"}
    return [Finding(name, titles.get(name, name), found) for name, found in versions.items()]


GROUPS: dict[str, Callable[[], list[Finding]]] = {
    "python": python, "kernel": kernel, "limits": limits, "accelerators": devices,
}  # fmt: skip
JSON = Option(("--json",), "", "print one JSON object")
PARSER = parser_of("doctor", "[--json]", options=(JSON,))


def main(words: list[str]) -> int:
    """Print what was found; gives 0 if everything that procession needs is there, otherwise 1."""
    options = read_alone(PARSER, words)
    groups = {name: look() for name, look in GROUPS.items()}
    everything = [f for found in groups.values() for f in found]
    missing = [f.thing for f in everything if f.needed and f.mark != "ok"]
    if options.get("json"):
        import json

        told = {name: {f.key: vars(f) for f in found} for name, found in groups.items()}
        text = json.dumps({"ok": not missing, "missing": missing, "groups": told}, indent=2)
    else:
        width, lines = max(len(f.thing) for f in everything), list[str]()
        for name, found in groups.items():
            lines += ["", name]
            for f in found:
                lines.append(f"  {f.mark:<10}  {f.thing:<{width}}  {f.value}")
                if f.instead:
                    lines.append(f"  {'':<10}  -> procession {f.instead}; what helps: {f.advice}")
        last = f"procession does not work here; missing: {', '.join(missing)}"
        lines += ["", last if missing else "Everything that procession needs is there."]
        text = "\n".join(lines[1:])
    say_out(text)
    return 1 if missing else 0
