"""Traces of simulations, and where two of them part."""

from __future__ import annotations

from pathlib import Path

from splitbrain.harness.simulation.trace import EVENTS_BEFORE, Trace, first_divergence


def trace_of(events: int, changed: int | None = None, *, keep: bool = True) -> Trace:
    trace = Trace(keep=keep)
    for number in range(events):
        trace.event(number * 10, "message", "different" if number == changed else f"n1>n2 {number}")
    return trace


def test_equal_traces_do_not_diverge_and_have_the_same_digest() -> None:
    assert first_divergence(trace_of(1000).lines(), trace_of(1000).lines()) is None
    assert trace_of(1000).digest() == trace_of(1000).digest()


def test_the_digest_depends_on_every_event_and_not_on_when_it_is_asked_for() -> None:
    digests = {trace_of(1000, changed).digest() for changed in (None, 0, 255, 256, 999)} | {trace_of(999).digest()}
    assert len(digests) == 6
    asked_often = Trace()
    for number in range(1000):
        asked_often.event(number * 10, "message", f"n1>n2 {number}")
        asked_often.digest()
    assert asked_often.digest() == trace_of(1000).digest()


def test_a_trace_that_is_not_kept_has_the_same_digest_and_length() -> None:
    kept, not_kept = trace_of(1000), trace_of(1000, keep=False)
    assert not_kept.digest() == kept.digest()
    assert len(not_kept) == len(kept) == 1000
    assert not_kept.lines() == []


def test_the_first_divergence_is_shown_with_what_came_before() -> None:
    told = first_divergence(trace_of(100).lines(), trace_of(100, changed=50).lines())
    assert told is not None
    lines = told.splitlines()
    assert lines[0] == "the traces part at event 50:"
    assert lines[1 : 1 + EVENTS_BEFORE] == [f"    {n * 10} message n1>n2 {n}" for n in range(45, 50)]
    assert lines[-2:] == ["  a 500 message n1>n2 50", "  b 500 message different"]


def test_a_trace_that_ends_early_diverges_there() -> None:
    told = first_divergence(trace_of(3).lines(), trace_of(4).lines())
    assert told is not None
    assert "at event 3:" in told
    assert "a (ends here)" in told
    assert "b 30 message n1>n2 3" in told


def test_traces_are_compared_as_files_too(tmp_path: Path) -> None:
    trace = trace_of(10)
    trace.event(100, "log", "two\nlines")
    with (tmp_path / "trace").open("w") as file:
        trace.write(file)
    with (tmp_path / "trace").open() as file:
        assert first_divergence(file, trace.lines()) is None
    assert len((tmp_path / "trace").read_text().splitlines()) == len(trace) == 11
