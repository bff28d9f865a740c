"""INT, TERM, HUP, QUIT, 1 to 5 times, at every stage of `procession run`."""

from __future__ import annotations

import signal
import time

from chaos.launchers import COMMAND, Launcher
from chaos.processes import until
from chaos.programs import family
from chaos.row import Row, Trial

KINDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def strike(trial: Trial) -> None:
    """Send signals to a command whose ranks obey, or do not."""
    chance, work = trial.chance, trial.place / "work"
    kind, times = chance.choice(KINDS), chance.randrange(1, 6)
    obeys, gap = chance.random() < 0.5, chance.uniform(0, 0.05)
    nohup = kind == signal.SIGHUP and chance.random() < 0.3
    seconds = 0.5 if nohup else 100.0
    argv = [COMMAND, "run", "-n", "3", "--shutdown-timeout", "1", family.__file__]
    if chance.random() < 0.5:
        argv[4:4] = ["--log-dir", "logs", "-t", "3"]
    env = {"CHAOS_OBEYS": "1" if obeys else "0", "CHAOS_SECONDS": str(seconds)}
    launcher = Launcher(["nohup", *argv] if nohup else argv, work, env)
    after = chance.uniform(0, 1.0)
    if chance.random() < 0.5:  # when all ranks are there
        until(lambda: nohup or len(list(work.glob("there.*"))) == 3, 20)
        after = chance.uniform(0, 0.1)
    time.sleep(after)
    ready = len(list(work.glob("there.*"))) == 3
    trial.do(
        f"{kind.name} {times} times, {gap * 1e3:.0f} ms apart, after {after:.3f} s"
        + ", ranks obey" * obeys
        + ", all there" * ready
        + ", nohup" * nohup
    )
    began = time.monotonic()
    for _ in range(times):
        launcher.process.send_signal(kind)
        time.sleep(gap)
    code = launcher.end(30)
    took = time.monotonic() - began
    trial.count("all ranks there" if ready else "before that")
    if nohup:
        trial.must(code == 0, f"with nohup, it ended with {code}: {launcher.text()[-300:]}")
        return
    wanted = 128 + kind
    # Before the command can handle signals, it dies of them, as every program does. An interpreter
    # that is interrupted before it has come to any of our code ends with 1.
    text = launcher.text()
    early = code == 1 and "KeyboardInterrupt" in text and "procession" not in text
    good = code in (wanted, -kind) or (early and kind == signal.SIGINT)
    trial.must(good, f"exit code {code}, not {wanted}: {text[-500:]}")
    if ready:
        once = times == 1
        trial.took("until the end, once" if once else "until the end, killed", took, 2.5)
        trial.must(
            "Traceback" not in launcher.text(), f"it showed a traceback: {launcher.text()[-800:]}"
        )


ROW = Row(
    fault="SIGINT, SIGTERM, SIGHUP, SIGQUIT to the command, 1 to 5 times, 0 to 50 ms apart, at "
    "every stage; nohup",
    holds="exit code 128 + the signal; stopped once, killed on the second; nothing alive; with "
    "nohup, nothing happens",
    full=600,
    strike=strike,
)
