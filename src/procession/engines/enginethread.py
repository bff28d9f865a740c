"""An engine's own thread: engines block, and the driver does not."""

from __future__ import annotations

from collections.abc import Callable

from procession.engines.contract import (
    Engine,
    EngineError,
    EngineEvent,
    NodeCommand,
    SlotGone,
)
from procession.system.eventloop import EventLoop
from procession.system.threads import Errands

PATIENCE = 30.0  # seconds that an engine may take to give everything back


class EngineThread:
    """Calls an engine, one call after another; its events are given to `take`, in the loop.

    What it tells while it gives everything back is not news.

    A call that fails becomes an event, too: no node process comes to this slot, or to any.
    """

    def __init__(
        self, engine: Engine, loop: EventLoop, take: Callable[[EngineEvent], None]
    ) -> None:
        self._engine = engine
        self._loop = loop
        self._take = take
        self._replacing: set[int] = set()  # slots for which the engine was asked just now
        self._given_back = True  # nothing has been asked for yet
        self._errands = Errands("procession-engine")

    def start(self, command: NodeCommand) -> None:
        """Have node processes started."""
        self._given_back = False
        self._ask(lambda: self._engine.start(command, self._told), None)

    def replace(self, slot: int) -> None:
        """Have a node process replaced in its slot; events about the old one are ignored then."""
        self._replacing.add(slot)

        def replace() -> None:
            try:
                self._engine.replace(slot)
            finally:
                self._loop.request(lambda: self._replacing.discard(slot))

        self._ask(replace, slot)

    def finish(self, kill: bool) -> list[str]:
        """Have everything given back, after a kill if wanted; gives what went wrong."""
        self._given_back = True
        faults: list[str] = []

        def end() -> None:
            for call in (self._engine.kill, self._engine.close) if kill else (self._engine.close,):
                try:
                    call()
                except Exception as e:
                    faults.append(_said(e))

        if not self._errands.wait("giving nodes back", end, PATIENCE):
            faults.append(f"{self._engine.name} did not give everything back in {PATIENCE:g} s")
        return faults

    def close(self) -> None:
        """Let the thread end; if the driver has failed, node processes are killed first."""
        if not self._given_back:
            self.finish(kill=True)
        self._errands.end()

    def _ask(self, call: Callable[[], None], slot: int | None) -> None:
        def do() -> None:
            try:
                call()
            except Exception as e:
                self._told(SlotGone(slot, _said(e)))

        self._errands.do_later("asking the engine", do, always=True)

    def _told(self, event: EngineEvent) -> None:
        def take() -> None:
            replaced = isinstance(event, SlotGone) and event.slot in self._replacing
            if not (replaced or self._given_back):
                self._take(event)

        self._loop.request(take)


def _said(e: Exception) -> str:
    return str(e) if isinstance(e, EngineError) else f"{type(e).__name__}: {e}"
