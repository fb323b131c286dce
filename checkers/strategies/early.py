"""MN-2: nodes that others take for down before they were silent for the tick time.

A node reports how long no frame of a session had come when the session ends (`lost`). If that is not longer than the
tick time, something else has to have ended the session, and the reports of both nodes show what that can be:

    the other side ended it before, for one of these reasons, or because it had heard nothing for the tick time itself
    the other node's process ended
    the node itself had learned of a partial partition, and ended it on purpose (MN-8)

The faults of the run do not decide this: a network may hold up messages without a fault, and a cut link may let some
through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from splitbrain.checkers.consensus.findings import Finding
from splitbrain.checkers.strategies.sights import Sight
from splitbrain.checkers.strategies.timelines import SLACK_NS, Timelines
from splitbrain.checkers.strategies.verdicts import Run

AT_ONCE_NS: Final = 250_000_000
"""What lies between two rows that a node writes for one event, at most."""

SOON_NS: Final = 2_000_000_000
"""What a node may take beside the tick time to hear of another process of a node: links are made anew."""


class Loss(NamedTuple):
    """The end of a session, at one of its sides.

    Attributes:
        sight: the row that says it.
        since_ns: when the session before it ended; when the process began, if there was none.
        seen_ns: when the node saw the other one in this session, as far as its rows show that.
    """

    sight: Sight
    since_ns: int
    seen_ns: int

    @property
    def silent_ms(self) -> int:
        """For how long no frame had come."""
        return self.sight.row.applied_count or 0


def losses(run: Run) -> list[Loss]:
    """All ends of sessions that nodes reported, in order of time."""
    found = [loss for life in run.reported.lives for loss in _of_life(life)]
    return sorted(found, key=lambda loss: loss.sight.time)


def _of_life(life: Sequence[Sight]) -> Iterator[Loss]:
    ended: dict[str, int] = {}
    seen: dict[str, int] = {}
    for each in life:
        if each.event == "lost":
            since_ns = ended.get(each.other, life[0].time)
            yield Loss(each, since_ns, seen.pop(each.other, since_ns))
            ended[each.other] = each.time
        elif each.is_whole:
            for other in each.alive:
                seen.setdefault(other, each.time)


def too_early(run: Run, lost: Sequence[Loss]) -> Iterator[Finding]:
    """Of each session that ended so, the side that ended it first."""
    judged = _Judged(run, lost)
    for loss in lost:
        if not judged.is_excused(loss) and not judged.is_answer(loss):
            node, other, tick_ms = loss.sight.node, loss.sight.other, run.reported.setup.tick_ms
            words = (
                f"Too early: {node} took {other} for down {loss.silent_ms / 1000:g} s after it had last heard of it "
                f"({loss.sight.row.at}), and its tick time is {tick_ms / 1000:g} s; {other} ran on, and had not lost "
                f"{node} before"
            )
            yield run.finding("too-early", words, loss.sight)


class _Judged:
    def __init__(self, run: Run, lost: Sequence[Loss]) -> None:
        self._tick_ms = run.reported.setup.tick_ms
        self._timelines = Timelines(run.reported, run.events)
        self._partial = [each for each in run.reported.sights if each.event == "partial"]
        self._by_pair: dict[tuple[str, str], list[Loss]] = {}
        for loss in lost:
            self._by_pair.setdefault((loss.sight.node, loss.sight.other), []).append(loss)

    def is_excused(self, loss: Loss) -> bool:
        """Whether it ended a session for a reason of its own, or the other side may have done so before."""
        return self._has_reason(loss) or any(
            each.sight.time <= loss.sight.time + SLACK_NS and self._has_reason(each)
            for each in self._of_other_side(loss)
        )

    def _may_have_ended(self, other: str, loss: Loss) -> bool:
        """Whether the process that the session was with may have ended, by all that is known of its times.

        One that ended about when the session began is another one than that of the session, unless the session ended
        soon: the next process says that it is there, or the silence lasts.
        """
        time_ns, seen_ns = loss.sight.time, loss.seen_ns
        if not self._timelines.lived(other, min(seen_ns + SLACK_NS, time_ns), time_ns + SLACK_NS):
            return True
        soon_ns = self._tick_ms * 1_000_000 + SOON_NS
        return any(
            seen_ns - SLACK_NS <= begun_ns <= time_ns + SLACK_NS and time_ns <= begun_ns + soon_ns
            for begun_ns in self._timelines.restarts(other)
        )

    def is_answer(self, loss: Loss) -> bool:
        """Whether the other side had ended the session before, without a reason: that is what is found then."""
        at = (loss.sight.time, loss.sight.node)
        return any((each.sight.time, each.sight.node) < at for each in self._of_other_side(loss))

    def _of_other_side(self, loss: Loss) -> Iterator[Loss]:
        """Ends of sessions that the other side began after this one had lost it before; also ends that came later."""
        for each in self._by_pair.get((loss.sight.other, loss.sight.node), ()):
            if each.seen_ns >= loss.since_ns - SLACK_NS:
                yield each

    def _has_reason(self, loss: Loss) -> bool:
        node, other, time_ns = loss.sight.node, loss.sight.other, loss.sight.time
        if loss.silent_ms > self._tick_ms:
            return True
        if self._may_have_ended(other, loss):
            return True
        return any(
            (each.node, each.other) == (node, other) and abs(time_ns - each.time) <= AT_ONCE_NS
            for each in self._partial
        )
