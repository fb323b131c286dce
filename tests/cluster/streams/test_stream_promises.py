"""A writer of a stream reports what speaks for what it promised to clients, from what came in and was written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from splitbrain.checkers.consensus import CommitMajority
from splitbrain.checkers.consensus.rows import rows_of_streams
from splitbrain.checkers.verdict import Verdict
from splitbrain.cluster.streams.frames import Confirmed
from splitbrain.cluster.streams.member import AnswerTo, StreamMember
from splitbrain.cluster.streams.position import Position
from splitbrain.cluster.streams.promises import INTERVAL_NS, Promises
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import Simulated, simulate
from splitbrain.results.telemetry import table_of

VOTERS = ("n1", "n2", "n3")


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_ns = INTERVAL_NS

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ns(self) -> int:
        return self.now_ns

    def call_later(self, delay_ns: int, callback: Any) -> Any:
        raise AssertionError("lines wait for nothing")

    async def sleep(self, delay_ns: int) -> None:
        raise AssertionError("lines wait for nothing")


class Writer:
    """The promises of n1, which writes epoch 2; 10 messages were committed before."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.lines: list[dict[str, Any]] = []
        self.promises = Promises(3, "n1", "n1", self.clock, lambda line: self.lines.append(msgspec.json.decode(line)))
        self.promises.begins(2, 10)

    def made(self, upto: int, epoch: int = 2) -> list[dict[str, Any]]:
        """The lines that came of a promise."""
        before = len(self.lines)
        self.promises.made(epoch, VOTERS, upto)
        return self.lines[before:]


def test_a_line_says_how_much_each_voter_said_and_how_much_was_written() -> None:
    writer = Writer()
    writer.promises.written(2, Position(2, 14))
    writer.promises.has(2, "n3", Position(2, 12))
    writer.promises.has(2, "n3", Position(2, 11))  # an older frame came late
    (line,) = writer.made(12)
    assert {name: line[name] for name in ("group", "event", "term", "leader", "log_index", "log_term")} == {
        "group": ":stream 3",
        "event": "commit",
        "term": 2,
        "leader": "n1",
        "log_index": 12,
        "log_term": 2,
    }
    assert (line["counted_index"], line["counted"]) == (12, {"n1": 14, "n2": 0, "n3": 12})


def test_promises_that_a_majority_has_are_reported_now_and_then_and_others_at_once() -> None:
    writer = Writer()
    writer.promises.written(2, Position(2, 20))
    writer.promises.has(2, "n2", Position(2, 18))
    assert len(writer.made(12)) == 1
    assert writer.made(13) == []
    assert len(writer.made(19)) == 1, "no majority has it"
    writer.promises.has(2, "n2", Position(2, 20))
    assert writer.made(20) == []
    writer.clock.now_ns += INTERVAL_NS
    assert [line["counted_index"] for line in writer.made(20)] == [20]
    assert writer.made(20) == [], "it was reported"


def test_what_a_majority_has_of_an_earlier_epoch_is_reported_as_that() -> None:
    writer = Writer()
    writer.promises.written(2, Position(2, 11))
    for voter in ("n2", "n3"):
        writer.promises.has(2, voter, Position(1, 11))
    (line,) = writer.made(11)
    assert (line["log_term"], line["counted"]) == (1, dict.fromkeys(VOTERS, 11))


def test_a_promise_that_no_majority_has_is_not_said_to_be_of_the_epoch_of_what_one_has() -> None:
    writer = Writer()
    writer.promises.written(2, Position(2, 12))
    for voter in ("n2", "n3"):
        writer.promises.has(2, voter, Position(1, 11))
    (line,) = writer.made(12)
    assert (line["log_term"], line["counted"]) == (2, {"n1": 12, "n2": 11, "n3": 11})
    telemetry = table_of({"n1": [(0, msgspec.json.encode(line))]})
    assert CommitMajority().check(telemetry, {}).anomalies == ("committed-without-majority",)


def test_what_was_committed_before_the_epoch_is_no_promise_of_it_nor_is_what_comes_of_another() -> None:
    writer = Writer()
    assert writer.made(10) == []
    assert writer.made(11, epoch=1) == []
    writer.promises.has(1, "n2", Position(1, 30))
    assert [line["counted"] for line in writer.made(11)] == [dict.fromkeys(VOTERS, 0)]


def streaming(bug: str = "", nemesis: str = "none") -> Simulated:
    options: dict[str, Any] = {
        "workload": "stream",
        "nemesis": nemesis,
        "system": "metadata",
        "backend": "sim",
        "bug": bug,
        "nodes": "3",
        "concurrency": "6",
        "rate": 100.0,
        "time_limit": 4.0 if nemesis == "none" else 12.0,
        "interval": 1.0,
        "op_timeout": 2.0,
        "recovery": 20.0,
        "seed": 5,
    }
    return simulate(compose(RunOptions.of(**options)))


def judged(run: Simulated) -> Verdict:
    return CommitMajority().check(run.telemetry, {})


@pytest.mark.slow
def test_a_writer_that_confirms_by_itself_is_convicted_without_any_fault_and_a_right_one_is_not() -> None:
    run = streaming()
    assert len(list(rows_of_streams(run.telemetry))) > 10
    assert judged(run).valid == "true"
    verdict = judged(streaming("M98"))
    assert (verdict.valid, verdict.anomalies) == ("false", ("committed-without-majority",))
    assert " of stream " in verdict.sentence


@pytest.mark.slow
def test_a_writer_that_goes_on_from_what_another_one_committed_is_not_convicted() -> None:
    run = streaming(nemesis="kill-leader")
    assert len({row.term for row in rows_of_streams(run.telemetry)}) > 1
    assert judged(run).valid == "true"


@pytest.mark.slow
def test_what_was_confirmed_counts_also_where_it_was_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_early(self: Any) -> list[Any]:
        done = [each for each in self._waiting if each[0] <= self.committed]
        self._waiting = [each for each in self._waiting if each[0] > self.committed]
        return [AnswerTo(token, Confirmed(said, self.epoch)) for _, said, token in done]

    monkeypatch.setattr(StreamMember, "_confirm", too_early)
    assert judged(streaming()).anomalies == ("committed-without-majority",)
