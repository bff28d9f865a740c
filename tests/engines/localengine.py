"""An engine of this machine's own processes, for tests: each slot is a node process."""

import os
import signal
import subprocess
import threading

from seams.jobs import SLOT, EngineError, SlotGone


class LocalEngine:
    name = "local"

    def __init__(self, slots, *, refuse=(), env=None, tells=True):
        self.slots = slots
        self.refuse = refuse  # slots for which there is no other node process
        self.env = env or {}
        self.tells = tells
        self.processes = {}
        self.killed = False

    def check(self):
        pass

    def start(self, command, tell):
        self.command, self.tell = command, tell
        for slot in range(self.slots):
            self._start(slot)

    def _start(self, slot):
        process = subprocess.Popen(
            self.command.argv,
            env={**os.environ, **self.env, **self.command.env, SLOT: str(slot)},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.processes[slot] = process
        threading.Thread(target=self._wait, args=(slot, process), daemon=True).start()

    def _wait(self, slot, process):
        code = process.wait()
        if self.tells and self.processes.get(slot) is process:
            self.tell(SlotGone(slot, f"its node process ended ({code})"))

    def replace(self, slot):
        if slot in self.refuse:
            raise EngineError(f"there is no node in place of {slot}")
        self._start(slot)

    def kill(self):
        self.killed = True
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)

    def close(self):
        for process in self.processes.values():
            process.wait(20)
