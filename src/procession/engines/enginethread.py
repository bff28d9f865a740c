"""An engine's own thread: engines block, and the driver does not."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from procession.engines.contract import EngineError, EngineEvent, EngineGone, SlotGone
from procession.system.eventloop import EventLoop
from procession.system.latch import Latch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.engines.contract import AgentCommand, Engine

PATIENCE = 30.0  # seconds that an engine may take to give everything back


class EngineThread:
    """Has an engine do one thing after another; what it tells is given to `take`, in the loop.

    What it cannot do, it tells as well: nobody comes to this slot, or to any.
    """

    def __init__(
        self, engine: Engine, loop: EventLoop, take: Callable[[EngineEvent], None]
    ) -> None:
        self._engine = engine
        self._loop = loop
        self._take = take
        self._replacing: set[int] = set()  # slots for which the engine was asked just now
        self._given_back = True  # nothing has been asked for yet
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="procession-engine", daemon=True)

    def start(self, agent: AgentCommand) -> None:
        """Have agents started."""
        self._given_back = False
        self._thread.start()
        self._ask(lambda: self._engine.start(agent, self._told), EngineGone)

    def replace(self, slot: int) -> None:
        """Have another agent started for a slot; what is told of the old one counts no more."""
        self._replacing.add(slot)

        def gone(why: str) -> SlotGone:
            return SlotGone(slot, why)

        self._ask(lambda: self._engine.replace(slot), gone, lambda: self._replacing.discard(slot))

    def finish(self, kill: bool) -> list[str]:
        """Have everything given back, after a kill if that is wanted; gives what went wrong."""
        self._given_back = True
        done = Latch()
        faults: list[str] = []

        def end() -> None:
            for call in (self._engine.kill, self._engine.close) if kill else (self._engine.close,):
                try:
                    call()
                except Exception as e:
                    faults.append(_said(e))
            done.set()

        self._jobs.put(end)
        self._jobs.put(None)
        if not done.wait(PATIENCE):
            faults.append(f"{self._engine.name} did not give everything back in {PATIENCE:g} s")
        return faults

    def close(self) -> None:
        """Let the thread end; what a driver that failed has left is ended by force."""
        if not self._given_back:
            self.finish(kill=True)
        self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _ask(
        self,
        call: Callable[[], None],
        gone: Callable[[str], EngineEvent],
        after: Callable[[], None] | None = None,
    ) -> None:
        def do() -> None:
            fault = ""
            try:
                call()
            except Exception as e:
                fault = _said(e)
            if after is not None:
                self._loop.request(after)
            if fault:
                self._told(gone(fault))

        self._jobs.put(do)

    def _told(self, event: EngineEvent) -> None:
        def take() -> None:
            if not (isinstance(event, SlotGone) and event.slot in self._replacing):
                self._take(event)

        self._loop.request(take)


def _said(e: Exception) -> str:
    return str(e) if isinstance(e, EngineError) else f"{type(e).__name__}: {e}"


__all__ = ["EngineThread"]
