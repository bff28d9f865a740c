"""Groups as OpenTelemetry traces: a span for the group, for each attempt, and for each rank.

    procession.run(train, nproc=4, on_event=procession.telemetry.trace())
    $ PROCESSION_EVENT_HANDLERS=otel opentelemetry-instrument procession run -n 4 train.py

It needs opentelemetry-api, and to send anything opentelemetry-sdk: `pip install procession[otel]`.
For each group it is the handler `otel`, which PROCESSION_EVENT_HANDLERS names (an entry point in
the group `procession.event_handlers`).

Theory of operation. A rank must know the number of its span before it is started, to be its parent
for what it traces itself (TRACEPARENT). OpenTelemetry gives a span its number when it begins. So a
rank's span begins when the rank is asked for; when its process was there, and when it had reached
its program, are events in it. All other times are those of the events.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.trace import Span, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from procession.values.events import Event

_W3C = TraceContextTextMapPropagator()
VARIABLES = ("TRACEPARENT", "TRACESTATE")
# What events report that becomes attributes; of an exception, with their names.
OF_RANK = ("signal", "outcome", "ended", "cpu_seconds", "peak_memory", "out_of_memory")
OF_GROUP = ("name", "run", "program", "words", "nproc", "node", "nodes", "first", "restarts")
OF_EXCEPTION = {
    "type": "exception.type",
    "message": "exception.message",
    "traceback": "exception.stacktrace",
}
FINAL = ("succeeded", "failed", "stopped")


def trace(
    description: Mapping[str, Any] | None = None, *, tracer_provider: TracerProvider | None = None
) -> Tracing:
    """Make a handler of events that traces one group; for `on_event`, or as an entry point.

    description: of no use here; entry points are given it. tracer_provider: makes the spans; by
    default OpenTelemetry's global one.

    The group's span is a child of the current span, else of what TRACEPARENT names, else a root.
    """
    provider = tracer_provider or otel.get_tracer_provider()
    return Tracing(provider.get_tracer("procession"), _around())


def _around() -> Context:
    if otel.get_current_span().get_span_context().is_valid:
        return contexts.get_current()
    given = {name.lower(): os.environ[name] for name in VARIABLES if name in os.environ}
    return _W3C.extract(given)


class Tracing:
    """A handler of one group's events that makes spans of them."""

    def __init__(self, tracer: otel.Tracer, around: Context) -> None:
        self._tracer = tracer
        self._around = around
        self._offset = time.time_ns() - time.monotonic_ns()  # until an event gives a better one
        self._first = 0  # the number of local rank 0 in the whole job
        self._group: Span | None = None
        self._attempt: Span | None = None
        self._ranks: dict[int, Span] = {}
        self._failed = ""  # why the attempt failed, as far as it is known

    def environment(self, attempt: int, rank: int) -> dict[str, str]:
        """Give the variables by which a rank that is about to start finds its span."""
        span = self._begin_rank(attempt, rank, time.monotonic_ns() + self._offset)
        given: dict[str, str] = {}
        _W3C.inject(given, otel.set_span_in_context(span))
        return {name.upper(): value for name, value in given.items()}

    def __call__(self, event: Event) -> None:
        """Take an event."""
        at = round(event.time * 1e9)
        if event.rank is not None:
            self._take_of_rank(event, event.rank, at)
        elif event.kind == "starting":
            self._offset = at - event.at
            self._begin_attempt(event, at)
        elif event.kind in FINAL:
            self._end(event, at)
        elif self._attempt is not None:
            self._attempt.add_event(event.kind, timestamp=at)

    def _begin_span(
        self, title: str, parent: Span | None, at: int, attributes: Mapping[str, Any]
    ) -> Span:
        """Begin a span. attributes: by their names without the prefix."""
        return self._tracer.start_span(
            title,
            self._around if parent is None else otel.set_span_in_context(parent),
            attributes={f"procession.{key}": value for key, value in attributes.items()},
            start_time=at,
        )

    def _begin_attempt(self, event: Event, at: int) -> None:
        facts, number = event.facts, event.attempt
        if self._group is None:
            self._first = facts["first"]
            told = {name: facts[name] for name in OF_GROUP}
            self._group = self._begin_span(f"group {facts['name']}", None, at, told)
        self._end_attempt(at)
        self._attempt = self._begin_span(f"attempt {number}", self._group, at, {"attempt": number})

    def _begin_rank(self, attempt: int, rank: int, at: int) -> Span:
        if rank not in self._ranks:
            numbers = {"rank": self._first + rank, "local_rank": rank, "attempt": attempt}
            title = f"rank {self._first + rank}"
            self._ranks[rank] = self._begin_span(title, self._attempt, at, numbers)
        return self._ranks[rank]

    def _take_of_rank(self, event: Event, rank: int, at: int) -> None:
        span, facts = self._begin_rank(event.attempt, rank, at), event.facts
        if event.pid is not None:
            span.set_attribute("process.pid", event.pid)
        if event.kind not in ("exited", "spawn_failed", "cancelled", "lost"):
            span.add_event(event.kind, timestamp=at)
            return
        span.set_attributes(
            {f"procession.{name}": facts[name] for name in OF_RANK if name in facts}
        )
        if "exit_code" in facts:
            span.set_attribute("process.exit.code", facts["exit_code"])
        wrong = self._wrong(event)
        if wrong:
            if "type" in facts:
                told = {name: facts[fact] for fact, name in OF_EXCEPTION.items() if fact in facts}
                span.add_event("exception", told, timestamp=at)
            span.set_status(Status(StatusCode.ERROR, wrong))
            self._failed = self._failed or f"rank {self._first + rank}: {wrong}"
        del self._ranks[rank]
        span.end(at)

    @staticmethod
    def _wrong(event: Event) -> str:
        """Say how a rank failed; "" if it did not."""
        if event.kind == "cancelled" or event.facts.get("ended", "failed") != "failed":
            return ""
        said = [event.facts[n] for n in ("type", "message") if event.facts.get(n)]
        return ": ".join(said) or event.detail or event.kind

    def _end_attempt(self, at: int) -> None:
        if self._attempt is None:
            return
        for span in self._ranks.values():
            span.end(at)
        self._ranks.clear()
        if self._failed:
            self._attempt.set_status(Status(StatusCode.ERROR, self._failed))
        self._failed = ""
        self._attempt.end(at)
        self._attempt = None

    def _end(self, event: Event, at: int) -> None:
        if event.kind == "failed":
            said = f"rank {self._first + event.facts['failed_rank']} {event.facts['message']}"
            self._failed = said
            if self._group is not None:
                self._group.set_status(Status(StatusCode.ERROR, said))
        self._end_attempt(at)
        if self._group is not None:
            self._group.set_attribute("procession.state", event.kind)
            self._group.end(at)
