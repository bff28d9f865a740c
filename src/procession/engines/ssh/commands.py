"""The command line by which ssh starts a node process, and what ssh says when it fails. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from procession.values.errors import SpecError

# What the node's side says, each at the beginning of a line.
STARTED = "procession-agent-started"  # host, pid
ENDED = "procession-agent-ended"  # how, in words
FAULT = "procession-agent-fault"  # why no node process was started, in words
KILL = b"kill\n"  # what the driver may send it after the first line

CONNECT_SECONDS = 15
OPTIONS = (
    "-T",  # no terminal
    "-x",
    "-o", "BatchMode=yes",  # a question would never be answered
    "-o", f"ConnectTimeout={CONNECT_SECONDS}",
    # Only ends ssh: a lost node is noticed by its link.
    "-o", "ServerAliveInterval=15",
    "-o", "ServerAliveCountMax=4",
    "-o", "ControlMaster=no",  # a connection that stays behind would hold our pipes
    "-o", "ClearAllForwardings=yes",  # these are for the user's own sessions
    "-o", "RemoteCommand=none",
    "-o", "PermitLocalCommand=no",
)  # fmt: skip
# Any login shell must understand `exec sh -c '...' word ...`, so the script has no quote, no
# exclamation mark and no line break. It looks for a Python that has procession; it does so in /,
# where no file of the home directory can be taken for a module.
FIND_PYTHON = (
    "cd /; tried=; "
    'for python in "$@"; do '
    'if command -v "$python" >/dev/null 2>&1; then '
    'if "$python" -c "import procession.engines.ssh.node" </dev/null >/dev/null 2>&1; then '
    'exec "$python" -c "import procession.engines.ssh.node as node; node.main()"; fi; '
    'tried="$tried $python (which cannot import procession),"; '
    'else tried="$tried $python (which is not there),"; fi; done; '
    f'echo "{FAULT} no Python with procession:$tried"; exit 127'
)
INSTALL = "install procession there, or name the right Python with --remote-python [P211]"
CAUSES = (
    (
        re.compile(r"Permission denied \((.*)\)"),
        "it refuses the log-in; `ssh {host}` must work without a question (a key, an agent)",
    ),
    (
        re.compile(r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED"),
        "its host key is not known, or has changed; run `ssh {host}` once by hand",
    ),
    (re.compile(r"Could not resolve hostname"), "its name cannot be resolved"),
    (re.compile(r"Connection refused"), "no ssh server listens there"),
    (re.compile(r"Connection timed out|No route to host|Network is unreachable"),
     "it cannot be reached"),
    (re.compile(r"Bad configuration option|terminating, \d+ bad|command-line: line 0"),
     "ssh does not take its options"),
)  # fmt: skip


def ssh_command(host: str, pythons: Iterable[str], options: Sequence[str] = ()) -> list[str]:
    """Give the command that starts the node's side on a host.

    pythons: those to try, in this order. options: for ssh; they stand before ours, so ssh prefers
    them.
    """
    words = ["exec", "sh", "-c", FIND_PYTHON, "procession", *pythons]
    # ssh takes no brackets around an IPv6 address.
    where = host.replace("[", "").replace("]", "")
    return ["ssh", *options, *OPTIONS, "--", where, shlex.join(words)]


def check_options(options: Iterable[str]) -> None:
    """Refuse what would make ssh do something else. Raises SpecError."""
    for word in options:
        if word == "--" or re.match(r"-[fNnstWVGQOMDLRw]", word):
            raise SpecError(f"{word} cannot be used here: it would have ssh do something else")


def why_ended(host: str, code: int, lines: Sequence[str], *, started: bool = True) -> str:
    """Say why a connection ended, or was never there.

    code: of ssh. lines: its last ones. started: whether a node process was started there.
    """
    for line in reversed(lines):
        if line.startswith((ENDED, FAULT)):
            word, _, text = line.partition(" ")
            said = text.strip().rstrip(",")
            if word == FAULT:
                no_python = "no Python" in said
                return f"{said} on {host}: {INSTALL}" if no_python else f"host {host}: {said}"
            return said
    said = next((line.removeprefix("ssh: ") for line in reversed(lines) if line.strip()), "")
    for pattern, why in CAUSES:
        if any(pattern.search(line) for line in lines):
            return f"host {host}: {why.format(host=host)}{f' ({said})' if said else ''} [P210]"
    if code == 0 and not started:
        return (
            f"host {host}: its log-in ended without starting a node process; see what `ssh {host} "
            "true` prints, whether a profile there exits or reads standard input, and whether "
            f"--remote-python, if given, is a Python{f' ({said})' if said else ''} [P210]"
        )
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    return f"the connection to {host} {how}{f': {said}' if said else ''} [P210]"
