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
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass

from procession.cli.commands import COMMANDS
from procession.cli.say import say
from procession.cli.steer.finding import read_alone
from procession.cli.words import Option, Parser
from procession.devices.kinds import KINDS
from procession.system import accelerators, files, memory_groups
from procession.system.cgroups import OomWatch, cgroups
from procession.system.probe import TRIALS, why_not
from procession.values.cpusets import format_cpus

FDS_PER_RANK = 6  # with prefixed output: two streams, result, pidfd, and the other ends meanwhile
FDS_BESIDE = 32
MIB, GIB = 1 << 20, 1 << 30
UNABLE = "cannot launch anything"
DEVICES = "the device files' group (render, video) for this user, or a container's --device, --gpus"
LINUX = "Linux {} or newer; in a container, a seccomp profile that allows it"


@dataclass(frozen=True)
class Finding:
    """One thing: what is there, in words.

    instead: what procession does without it. advice: what the user may do. needed: nothing works
    without it.
    """

    key: str
    thing: str
    mark: str
    value: str
    instead: str = ""
    advice: str = ""
    needed: bool = False


def fact(key: str, thing: str, value: object) -> Finding:
    """Make a finding without judgement."""
    return Finding(key, thing, "-", "unknown" if value is None else str(value))


def judged(
    key: str, thing: str, why: str, instead: str, advice: str, works: str = "works"
) -> Finding:
    """Judge a feature. why: it does not work, "" if it does. instead: "" where it is needed."""
    needed = not instead
    if not why:
        return Finding(key, thing, "ok", works, needed=needed)
    mark = "missing" if needed else "falls back"
    return Finding(key, thing, mark, why, instead or UNABLE, advice, needed)


def size(number: int | None) -> str:
    """Write a number of bytes."""
    if number is None:
        return "unknown"
    return f"{number / GIB:.1f} GiB" if number >= GIB else f"{number / MIB:.0f} MiB"


# key, thing, what procession does without it ("" for what it needs), what to do about it
FEATURES = (
    ("pidfd", "pidfd_open, pidfd_send_signal, waitid(P_PIDFD)",
     "hears of deaths from the forkserver alone, and signals by number", LINUX.format("5.4")),
    ("subreaper", "prctl(PR_SET_CHILD_SUBREAPER)", "", LINUX.format("3.4")),
    ("parent_death_signal", "prctl(PR_SET_PDEATHSIG)", "", LINUX.format("2.6")),
    ("memfd_create", "memfd_create", "", LINUX.format("3.17")),
    ("eventfd", "eventfd", "", LINUX.format("2.6.27")),
    ("close_range", "close_range", "closes descriptors one by one", "Linux 5.9, a newer Python"),
    ("inotify", "inotify", "looks at files every 0.1 s", "raise fs.inotify.max_user_* by sysctl"),
    ("proc_children", "/proc/<pid>/task/<tid>/children", "",
     "a kernel with CONFIG_PROC_CHILDREN"),
    ("proc", "/proc", "", "mount -t proc proc /proc"),
    ("control", "directory for sockets of runs",
     "runs all the same, but `procession ps`, `stacks`, `attach` and `stop` do not see it",
     "set XDG_RUNTIME_DIR, or TMPDIR, to a directory of this user's own"),
    ("state", "directory for records of runs",
     "keeps no list of runs that are over, and needs --log-dir for --detach",
     "set HOME, or XDG_STATE_HOME, to a directory that this user may write to"),
)  # fmt: skip


def kernel() -> list[Finding]:
    """Try the features of the kernel, and the user's directories."""
    found = [fact("kernel", "kernel", os.uname().release)]
    for key, thing, instead, advice in FEATURES:
        found.append(judged(key, thing, why_not(TRIALS[key]), instead, advice))
    watch = OomWatch()
    why = "of the whole machine" if watch.whole_machine else "" if watch.source else "none"
    instead = "may not tell, or tell wrongly, that a rank was killed because memory ran out"
    advice = "a memory cgroup of its own, to be seen in /sys/fs/cgroup"
    found.append(judged("oom_kill", "count of OOM kills of this cgroup", why, instead, advice))
    instead = "limits memory (--memory-limit) of each process by itself, by RLIMIT_DATA"
    advice = "a cgroup for it alone: systemd-run --user --scope -p Delegate=yes procession run ..."
    why = memory_groups.obstacle()
    return [*found, judged("rank_cgroups", "a memory cgroup for each rank", why, instead, advice)]


def limits() -> list[Finding]:
    """Look at how much this process may use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ranks = 1 << 20 if soft < 0 else max(0, soft - FDS_BESIDE) // FDS_PER_RANK
    cores, groups = sorted(os.sched_getaffinity(0)), cgroups()
    files_, quota, most = f"{soft}, for about {ranks} ranks", groups.cores(), groups.memory()
    cpus = f"{quota:g}" if quota else "no limit"
    found = [
        judged("open_files", "open files", files_ if ranks < len(cores) else "",
               "ends a group that it cannot open descriptors for, and says so",
               f"ulimit -n {hard}" if hard != soft else "ask for a higher hard limit", files_),
        fact("cores", "cores for this process", format_cpus(cores)),
        judged("quota", "CPU quota (cgroup)", cpus if quota and quota < len(cores) else "",
               f"counts {len(cores)} cores for OMP_NUM_THREADS: too many threads",
               "set OMP_NUM_THREADS to the quota divided by the number of ranks", cpus),
        fact("memory", "memory", size(files.field("/proc/meminfo", "MemTotal"))),
        fact("cgroup_memory", "memory (cgroup)", size(most) if most else "no limit"),
    ]  # fmt: skip
    instead = "does not notice: ranks that share tensors may die of SIGBUS"
    advice = "docker run --shm-size=8g, or --ipc=host"
    found += _space("shm", "/dev/shm", GIB, instead, advice)  # noqa: S108 - only looked at
    try:
        place = tempfile.gettempdir()
    except OSError as e:
        advice = "set TMPDIR to a directory that this user may write to"
        return [*found, judged("tmp", "TMPDIR", str(e.strerror), "", advice)]
    instead, advice = "cannot keep what ranks write there", "make room, or set TMPDIR"
    return [*found, *_space("tmp", place, 100 * MIB, instead, advice)]


def _space(key: str, place: str, least: int, instead: str, advice: str) -> list[Finding]:
    try:
        found = os.statvfs(place)
    except OSError as e:
        return [fact(key, place, e.strerror)]
    free = found.f_bavail * found.f_frsize
    value = f"{size(free)} free of {size(found.f_blocks * found.f_frsize)}"
    return [judged(key, place, value if free < least else "", instead, advice, value)]


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
    return found or [fact("none", "accelerators", "none found")]


def python() -> list[Finding]:
    """Look at the interpreter and the packages."""
    why = "" if sys.executable else "sys.executable is empty"
    advice = "set sys.executable to the interpreter that ranks shall run in"
    found = [
        fact("python", "Python", sys.version.split()[0]),
        judged("executable", "interpreter", why, "", advice, sys.executable),
    ]
    for name in ("procession", "cloudpickle", "tblib", "numpy", "torch", "jax", "ray"):
        try:
            found.append(fact(name, name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            none = "not installed"
            if name in ("cloudpickle", "tblib"):
                found.append(judged(name, name, none, "", f"python -m pip install {name}"))
            else:
                found.append(fact(name, name, none))
    return found


def looked(name: str) -> list[Finding]:
    """Give a group of findings, whatever happens."""
    try:
        return GROUPS[name]()
    except Exception as e:
        return [judged(name, name, f"{type(e).__name__}: {e}", "", "tell its authors")]


GROUPS: dict[str, Callable[[], list[Finding]]] = {
    "python": python, "kernel": kernel, "limits": limits, "accelerators": devices,
}  # fmt: skip
PARSER = Parser(
    "procession doctor",
    [Option(("--json",), "", "print one JSON object")],
    description=f"{COMMANDS['doctor'].capitalize()}.",
)


def main(words: list[str]) -> int:
    """Print what was found; gives 0 if everything that procession needs is there, otherwise 1."""
    options = read_alone(PARSER, words)
    groups = {name: looked(name) for name in GROUPS}
    everything = [f for found in groups.values() for f in found]
    missing = [f.thing for f in everything if f.needed and f.mark != "ok"]
    if options.json:
        import json

        told = {name: {f.key: asdict(f) for f in found} for name, found in groups.items()}
        text = json.dumps({"ok": not missing, "missing": missing, "groups": told}, indent=2)
    else:
        width, lines = max(len(f.thing) for f in everything), [""]
        for name, found in groups.items():
            lines += [name] if len(lines) == 1 else ["", name]
            for f in found:
                lines.append(f"  {f.mark:<10}  {f.thing:<{width}}  {f.value}")
                if f.instead:
                    lines.append(f"  {'':<10}  -> procession {f.instead}; what helps: {f.advice}")
        last = f"procession does not work here; missing: {', '.join(missing)}"
        lines += ["", last if missing else "Everything that procession needs is there."]
        text = "\n".join(lines[1:])
    say(f"{text}\n", sys.stdout)
    return 1 if missing else 0
