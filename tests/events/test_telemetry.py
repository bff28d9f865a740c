"""Groups as OpenTelemetry traces, kept in memory by the SDK."""

import os
import time
from types import SimpleNamespace

import pytest

import procession
from procession import Restart
from support import QUICK, shell

pytest.importorskip("opentelemetry.sdk")
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def traced(monkeypatch):
    """Give a function that runs a group and gives its spans: group, attempts, ranks by attempt."""
    monkeypatch.delenv("TRACEPARENT", raising=False)
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def run(program, **options):
        heard = []
        trace = procession.telemetry.trace(tracer_provider=provider)
        options.setdefault("stop", QUICK)
        end = options.pop("end", lambda _: None)
        group = procession.start(program, on_event=trace, **options)
        group.subscribe(heard.append)
        end(group)
        failed = None
        try:
            group.wait()
        except procession.GroupFailed as e:
            failed = e
        spans = sorted(exporter.get_finished_spans(), key=lambda s: (s.start_time, s.name))
        (whole,) = [s for s in spans if s.name.startswith("group ")]
        attempts = [s for s in spans if s.name.startswith("attempt ")]
        ranks = {
            s.attributes["procession.attempt"]: sorted(
                (r for r in spans if r.parent and r.parent.span_id == s.context.span_id),
                key=lambda r: r.attributes["procession.rank"],
            )
            for s in attempts
        }
        assert len(spans) == 1 + len(attempts) + sum(map(len, ranks.values()))
        assert {s.context.trace_id for s in spans} == {whole.context.trace_id}
        assert all(a.parent.span_id == whole.context.span_id for a in attempts)
        return SimpleNamespace(
            whole=whole, attempts=attempts, ranks=ranks, events=heard, failed=failed
        )

    yield run
    provider.shutdown()


def at(seen, kind, rank=None, attempt=0):
    (event,) = [e for e in seen.events if (e.kind, e.rank, e.attempt) == (kind, rank, attempt)]
    return round(event.time * 1e9)


def parent_of_rank():
    return os.environ["TRACEPARENT"]


def test_success(traced):
    before = time.time_ns()
    seen = traced(parent_of_rank, nproc=2)
    whole, (attempt,), ranks = seen.whole, seen.attempts, seen.ranks[0]
    assert whole.name == "group parent_of_rank"
    assert whole.parent is None
    assert whole.attributes["procession.nproc"] == 2
    assert whole.attributes["procession.words"] == ("parent_of_rank",)
    assert whole.attributes["procession.state"] == "succeeded"
    assert {whole.status.status_code, attempt.status.status_code} == {StatusCode.UNSET}
    assert whole.start_time == attempt.start_time == at(seen, "starting")
    assert whole.end_time == attempt.end_time == at(seen, "succeeded")
    assert abs(whole.start_time - before) < 60e9
    assert [r.name for r in ranks] == ["rank 0", "rank 1"]
    for rank, span in enumerate(ranks):
        told = span.attributes
        assert told["procession.local_rank"] == told["procession.rank"] == rank
        assert told["process.pid"] > 1
        assert (told["process.exit.code"], told["procession.outcome"]) == (0, "returned")
        assert told["procession.ended"] == "finished"
        assert told["procession.cpu_seconds"] >= 0
        assert told["procession.peak_memory"] > 0
        assert span.status.status_code is StatusCode.UNSET
        assert whole.start_time <= span.start_time <= at(seen, "spawned", rank) <= span.end_time
        assert span.end_time == at(seen, "exited", rank)
        inside = {event.name: event.timestamp for event in span.events}
        assert inside["spawned"] == at(seen, "spawned", rank)
        assert inside["ready"] == at(seen, "ready", rank)


def test_each_rank_has_its_own_span_for_a_parent(traced, tmp_path):
    program = shell(f"echo $TRACEPARENT > {tmp_path}/$TORCHELASTIC_RESTART_COUNT.$RANK; "
                    "exit $((1 - TORCHELASTIC_RESTART_COUNT))")  # fmt: skip
    seen = traced(program, nproc=2, restart=Restart(max=1), stop=procession.Stop(patience=9.0))
    for attempt, ranks in seen.ranks.items():
        for rank, span in enumerate(ranks):
            version, trace, own, flags = (tmp_path / f"{attempt}.{rank}").read_text().split("-")
            assert (version, int(flags, 16) & 1) == ("00", 1)
            assert int(trace, 16) == span.context.trace_id
            assert int(own, 16) == span.context.span_id


def work():
    if os.environ["RANK"] == "1":
        raise ValueError("no such batch")
    time.sleep(60)


def test_failure(traced):
    seen = traced(work, nproc=2)
    stopped, failed = seen.ranks[0]
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.status.description == "ValueError: no such batch"
    (fault,) = [event for event in failed.events if event.name == "exception"]
    assert fault.attributes["exception.type"] == "ValueError"
    assert fault.attributes["exception.message"] == "no such batch"
    assert 'raise ValueError("no such batch")' in fault.attributes["exception.stacktrace"]
    assert stopped.status.status_code is StatusCode.UNSET
    assert stopped.attributes["procession.ended"] == "stopped"
    assert stopped.attributes["procession.signal"] == 15
    for span in (seen.whole, seen.attempts[0]):
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description == "rank 1 raised ValueError: no such batch"
    assert seen.whole.attributes["procession.state"] == "failed"
    assert seen.failed.cause.rank == 1


def test_restart(traced):
    seen = traced(shell("exit $((5 * (1 - TORCHELASTIC_RESTART_COUNT)))"), restart=Restart(max=1))
    first, second = seen.attempts
    assert (first.name, second.name) == ("attempt 0", "attempt 1")
    assert first.status.status_code is StatusCode.ERROR
    assert first.status.description == "rank 0: exit code 5"
    assert second.status.status_code is seen.whole.status.status_code is StatusCode.UNSET
    assert first.end_time == second.start_time == at(seen, "starting", attempt=1)
    assert [r.attributes["process.exit.code"] for r in (*seen.ranks[0], *seen.ranks[1])] == [5, 0]


def test_parent_from_the_environment(traced, monkeypatch):
    monkeypatch.setenv("TRACEPARENT", PARENT)
    seen = traced(["true"])
    assert seen.whole.parent.span_id == 0xB7AD6B7169203331
    assert seen.whole.context.trace_id == 0x0AF7651916CD43DD8448EB211C80319C


def test_parent_from_the_program(traced, monkeypatch):
    monkeypatch.setenv("TRACEPARENT", PARENT)
    with (
        TracerProvider(shutdown_on_exit=False)
        .get_tracer("mine")
        .start_as_current_span("around") as around
    ):
        seen = traced(["true"])
    assert seen.whole.parent.span_id == around.get_span_context().span_id


def test_without_a_provider_nothing_is_made():
    """OpenTelemetry's interface alone makes spans that are none."""
    values = procession.run(
        os.environ.get, args=("TRACEPARENT",), nproc=2, on_event=procession.telemetry.trace()
    )
    assert values == [None, None]


def test_by_name(monkeypatch):
    from opentelemetry import trace

    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setenv("PROCESSION_EVENT_HANDLERS", "otel")
    values = procession.run(parent_of_rank, nproc=2)
    names = sorted(span.name for span in exporter.get_finished_spans())
    assert names == ["attempt 0", "group parent_of_rank", "rank 0", "rank 1"]
    assert len(set(values)) == 2
    provider.shutdown()
