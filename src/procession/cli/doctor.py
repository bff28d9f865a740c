"""`procession doctor`: what this machine offers, and what procession does where it does not.

Each group of findings is made by one function, which may fail without the others. A finding's mark:

    ok          it is there
    falls back  it is not, and procession does something else instead
    low         a limit that a launch may reach
    missing     it is not there; without some of these procession does not work
    -           a fact, or something that procession does not depend on
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from procession.cli.commands import COMMANDS
from procession.cli.say import say
from procession.cli.words import Option, Parser
from procession.system import accelerators, files, memory_groups, numa, probe
from procession.system.cgroups import OomWatch, cgroups
from procession.system.directories import runtime_directory, state_directory
from procession.values.cpusets import format_cpus

FDS_PER_RANK = 6  # with prefixed output: two streams, result, pidfd, and the other ends meanwhile
FDS_BESIDE = 32
MIB, GIB = 1 << 20, 1 << 30
UNKNOWN = "unknown"
UNABLE = "cannot launch anything"
ALONE = "a cgroup for it alone: systemd-run --user --scope -p Delegate=yes procession run ..."
DEVICES = "the device files' group (render, video) for this user, or a container's --device, --gpus"


@dataclass(frozen=True)
class Finding:
    """One thing: `value` in words, `data` for programs.

    instead: what procession does. advice: what the user may do. needed: nothing works without it.
    """

    key: str
    thing: str
    mark: str
    value: str
    data: object = None
    instead: str = ""
    advice: str = ""
    needed: bool = False


def fact(key: str, thing: str, value: object, *data: object) -> Finding:
    """Make a finding without judgement. data: for programs, if it is not the value."""
    text = UNKNOWN if value is None else str(value)
    return Finding(key, thing, "-", text, data[0] if data else value)


def feature(
    key: str, thing: str, tried: probe.Tried, instead: str, advice: str, value: str = "works"
) -> Finding:
    """Judge a feature; without an `instead` it is needed."""
    needed = not instead
    if tried.works:
        return Finding(key, thing, "ok", value, True, needed=needed)
    mark = "missing" if needed else "falls back"
    return Finding(key, thing, mark, tried.why, False, instead or UNABLE, advice, needed)


def size(number: int | None) -> str:
    """Write a number of bytes."""
    if number is None:
        return UNKNOWN
    return f"{number / GIB:.1f} GiB" if number >= GIB else f"{number / MIB:.0f} MiB"


def bound(number: int) -> str:
    """Write a limit of the system."""
    return "unlimited" if number < 0 else str(number)


def bounds(soft: int, hard: int) -> str:
    """Write a limit of this process that it may raise."""
    return bound(soft) if soft == hard else f"{bound(soft)}, can be raised to {bound(hard)}"


# -- the groups

LINUX = "Linux {} or newer; in a container, a seccomp profile that allows it"
PROC_CHILDREN = "a kernel with CONFIG_PROC_CHILDREN"
# key, thing, what procession does without it ("" for what it needs), what to do about it
FEATURES = (
    ("pidfd_open", "pidfd_open", "hears of deaths from the forkserver alone", LINUX.format("5.3")),
    (
        "pidfd_send_signal",
        "pidfd_send_signal",
        "signals processes by their numbers",
        LINUX.format("5.3"),
    ),
    ("waitid", "waitid(P_PIDFD)", "waits by number", LINUX.format("5.4")),
    ("subreaper", "prctl(PR_SET_CHILD_SUBREAPER)", "", LINUX.format("3.4")),
    ("parent_death_signal", "prctl(PR_SET_PDEATHSIG)", "", LINUX.format("2.6")),
    ("memfd_create", "memfd_create", "", LINUX.format("3.17")),
    ("eventfd", "eventfd", "", LINUX.format("2.6.27")),
    ("close_range", "close_range", "closes descriptors one by one", "Linux 5.9, a newer Python"),
    ("inotify", "inotify", "looks at files every 0.1 s", "raise fs.inotify.max_user_* by sysctl"),
    ("proc_children", "/proc/<pid>/task/<tid>/children", "looks through /proc", PROC_CHILDREN),
)


def kernel() -> list[Finding]:
    """Try the features of the kernel."""
    found = [fact("kernel", "kernel", os.uname().release)]
    for key, thing, instead, advice in FEATURES:
        found.append(feature(key, thing, probe.try_feature(key), instead, advice))
    mounted = probe.Tried(files.read("/proc/self/status") is not None, "not mounted")
    found.append(feature("proc", "/proc", mounted, "", "mount -t proc proc /proc"))
    found.append(_oom_kills(OomWatch()))
    for name in ("max_user_instances", "max_user_watches"):
        value = files.number(f"/proc/sys/fs/inotify/{name}")
        found.append(fact(f"inotify_{name}", f"fs.inotify.{name}", value))
    groups = cgroups()
    found.append(fact("cgroup", "cgroup version", groups.version))
    why = memory_groups.obstacle()
    instead = "limits memory (--memory-limit) of each process by itself, by RLIMIT_DATA"
    tried = probe.Tried(not why, why)
    return [*found, feature("rank_cgroups", "a memory cgroup for each rank", tried, instead, ALONE)]


def _oom_kills(watch: OomWatch) -> Finding:
    key, thing, where = "oom_kill", "count of OOM kills", "of this process's cgroup"
    if watch.source is None:
        instead = "does not tell whether a rank that got SIGKILL was killed because memory ran out"
        return feature(key, thing, probe.Tried(False, "none"), instead, LINUX.format("4.13"))
    if watch.whole_machine:
        instead = "may take the OOM kill of another program for that of a rank"
        advice = "a memory cgroup of its own, to be seen in /sys/fs/cgroup"
        return feature(key, thing, probe.Tried(False, "of the whole machine"), instead, advice)
    return feature(key, thing, probe.Tried(True), UNABLE, "", where)


def limits() -> list[Finding]:
    """Look at how much this process may use."""
    found = [_open_files(len(os.sched_getaffinity(0)))]
    for key, thing, name in (("processes", "processes of this user", "NPROC"),
                             ("core", "core dump size", "CORE")):  # fmt: skip
        pair = probe.rlimit(name)
        found.append(fact(key, thing, None if pair is None else bounds(*pair), pair))
    found.append(fact("core_pattern", "core_pattern", files.read("/proc/sys/kernel/core_pattern")))
    found.append(fact("pid_max", "pid_max", files.number("/proc/sys/kernel/pid_max")))
    groups = cgroups()
    most = groups.limit("pids", "pids.max")
    text = "no limit" if most is None else most
    found.append(fact("cgroup_processes", "processes (cgroup)", text, most))
    for key, thing, name in (("memory", "memory", "MemTotal"),
                             ("memory_available", "memory available", "MemAvailable")):  # fmt: skip
        value = files.field("/proc/meminfo", name)
        found.append(fact(key, thing, size(value), value))
    most = groups.memory()
    found.append(fact("cgroup_memory", "memory (cgroup)", size(most) if most else "no limit", most))
    instead = "does not notice: ranks that share tensors may die of SIGBUS"
    advice = "docker run --shm-size=8g, or --ipc=host"
    found.append(_space("shm", "/dev/shm", GIB, instead, advice))  # noqa: S108 - only looked at
    try:
        place = tempfile.gettempdir()
    except OSError as e:
        why, advice = e.strerror or UNKNOWN, "set TMPDIR to a directory that this user may write to"
        return [*found, feature("tmp", "TMPDIR", probe.Tried(False, why), "", advice)]
    instead, advice = "cannot keep what ranks write there", "make room, or set TMPDIR"
    return [*found, _space("tmp", place, 100 * MIB, instead, advice)]


def directories() -> list[Finding]:
    """Try the user's directories: for sockets of runs, and for their records."""
    instead = "runs all the same, but `procession ps`, `stacks`, `attach` and `stop` do not see it"
    advice = "set XDG_RUNTIME_DIR, or TMPDIR, to a directory of this user's own"
    place = runtime_directory()
    tried = probe.try_feature("control")
    found = [feature("control", "sockets of runs", tried, instead, advice, place)]
    instead = "keeps no list of runs that are over, and needs --log-dir for --detach"
    advice = "set HOME, or XDG_STATE_HOME, to a directory that this user may write to"
    place, tried = state_directory(), probe.try_feature("state")
    return [*found, feature("state", "records of runs", tried, instead, advice, place)]


def _open_files(cores: int) -> Finding:
    pair = probe.rlimit("NOFILE")
    if pair is None:
        return fact("open_files", "open files", None)
    soft, hard = pair
    ranks = None if soft < 0 else max(0, soft - FDS_BESIDE) // FDS_PER_RANK
    text = bounds(soft, hard)
    text += "" if ranks is None else f"; enough for about {ranks} ranks"
    made = Finding("open_files", "open files", "ok", text, [soft, hard, ranks])
    if ranks is None or ranks >= cores:
        return made
    instead = "ends a group that it cannot open descriptors for, and says so"
    advice = f"ulimit -n {bound(hard)}" if hard != soft else "ask for a higher hard limit"
    return replace(made, mark="low", instead=instead, advice=advice)


def _space(key: str, place: str, least: int, instead: str, advice: str) -> Finding:
    pair = probe.space(place)
    if pair is None:
        return fact(key, place, None)
    made = Finding(key, place, "ok", f"{size(pair[1])} free of {size(pair[0])}", pair)
    low = pair[1] < least
    return replace(made, mark="low", instead=instead, advice=advice) if low else made


def cores() -> list[Finding]:
    """Look at cores and NUMA nodes."""
    allowed = sorted(os.sched_getaffinity(0))
    found = [fact("cores", "cores", os.cpu_count())]
    found.append(fact("affinity", "cores for this process", format_cpus(allowed), allowed))
    quota = cgroups().cores()
    found.append(fact("quota", "CPU quota (cgroup)", f"{quota:g}" if quota else "no limit", quota))
    if quota is not None and quota < len(allowed):
        instead = f"counts {len(allowed)} cores for OMP_NUM_THREADS: too many threads"
        advice = "set OMP_NUM_THREADS to the quota divided by the number of ranks"
        found[-1] = replace(found[-1], mark="low", instead=instead, advice=advice)
    nodes = numa.nodes()
    if nodes is None:
        return [*found, fact("numa", "NUMA nodes", None)]
    for node in nodes:
        text = f"cores {format_cpus(node.cpus) or 'none'}, memory {size(node.memory)}"
        found.append(fact(f"node{node.number}", f"NUMA node {node.number}", text, asdict(node)))
    return found


def devices() -> list[Finding]:
    """Look for accelerators."""
    found: list[Finding] = []
    for kind in accelerators.find():
        models = Counter(kind.names)
        names = [f"{n} x {name}" if n > 1 else name for name, n in models.items()]
        chosen = [f"{name}={value}" for name, value in kind.variables.items()]
        text = "; ".join([f"{kind.count}", *names, *chosen, *kind.notes, *kind.faults])
        mark = "ok" if kind.count else "-"
        made = Finding(kind.kind.lower(), kind.kind, mark, text, asdict(kind))
        if kind.faults:
            instead = "leaves it to the program, which may not find them"
            made = replace(made, mark="missing", instead=instead, advice=DEVICES)
        found.append(made)
    return found or [fact("none", "accelerators", "none found")]


def surroundings() -> list[Finding]:
    """Look at what started this process."""
    found: list[Finding] = []
    for name, variables in probe.launchers(os.environ).items():
        text = " ".join(f"{n}={value}" for n, value in variables.items()) or "no"
        found.append(fact(name.lower(), name, text, variables))
    return found


def python() -> list[Finding]:
    """Look at the interpreter and the packages."""
    found = [fact("procession", "procession", probe.package("procession"))]
    found.append(fact("python", "Python", sys.version.split()[0]))
    here = probe.Tried(bool(sys.executable), "sys.executable is empty")
    advice = "set sys.executable to the interpreter that ranks shall run in"
    found.append(feature("executable", "interpreter", here, "", advice, sys.executable))
    for name, lost in (("cloudpickle", "functions of a script"), ("tblib", "tracebacks of ranks")):
        version = probe.package(name)
        advice = f"python -m pip install {name}"
        made = Finding(name, name, "ok", version or "not installed", version, needed=True)
        short = replace(made, mark="missing", instead=f"cannot handle {lost}", advice=advice)
        found.append(made if version else short)
    for name in ("numpy", "torch", "jax", "ray"):
        version = probe.package(name)
        found.append(fact(name, name, version or "not installed", version))
    return found


GROUPS: dict[str, Callable[[], list[Finding]]] = {
    "python": python, "kernel": kernel, "limits": limits, "directories": directories,
    "cores": cores, "accelerators": devices, "environment": surroundings,
}  # fmt: skip


# -- the command


def examine() -> dict[str, list[Finding]]:
    """Look at everything, by group. Raises nothing."""
    found: dict[str, list[Finding]] = {}
    for name, look in GROUPS.items():
        try:
            found[name] = look()
        except Exception as e:
            failed = probe.Tried(False, f"{UNKNOWN}: {type(e).__name__}: {e}")
            instead = "" if name == "kernel" else "may work all the same"
            found[name] = [feature(name, name, failed, instead, "tell its authors")]
    return found


def show(groups: Mapping[str, list[Finding]]) -> list[str]:
    """Write the findings as lines."""
    width = max(len(f.thing) for found in groups.values() for f in found)
    lines: list[str] = []
    for name, found in groups.items():
        lines += [name]
        for f in found:
            lines.append(f"  {f.mark:<10}  {f.thing:<{width}}  {f.value}")
            if f.instead:
                lines.append(f"  {'':<10}  -> procession {f.instead}; what helps: {f.advice}")
        lines.append("")
    return lines


PARSER = Parser(
    "procession doctor",
    [Option(("--json",), "", "print one JSON object")],
    description=f"{COMMANDS['doctor'].capitalize()}.",
)


def main(words: list[str]) -> int:
    """Print what was found; gives 0 if everything that procession needs is there, otherwise 1."""
    options, rest = PARSER.read(words)
    if rest:
        PARSER.error(f"it takes no words beside its options, such as {rest[0]!r}")
    groups = examine()
    everything = [f for found in groups.values() for f in found]
    missing = [f.thing for f in everything if f.needed and f.mark != "ok"]
    if options.json:
        import json

        told = {name: {f.key: asdict(f) for f in found} for name, found in groups.items()}
        text = json.dumps({"ok": not missing, "missing": missing, "groups": told}, indent=2)
    else:
        last = "Everything that procession needs is there."
        if missing:
            last = f"procession does not work here; missing: {', '.join(missing)}"
        text = "\n".join([*show(groups), last])
    say(f"{text}\n", sys.stdout)
    return 1 if missing else 0
