"""When all nodes saw each other, by what each reported, and the nemesis left them alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from splitbrain.checkers.strategies.sights import RUNNING, Sight
from splitbrain.checkers.strategies.verdicts import Run


class Stretch(NamedTuple):
    """A time in which nodes ran apart that saw each other.

    Attributes:
        begin_ns: when it began.
        apart: what a node that ran apart had reported by then.
        last: the last row in it.
    """

    begin_ns: int
    apart: Sight
    last: Sight


class Calm:
    """Times of a run in which a protocol between all nodes comes to its end."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._whole = [each for each in run.reported.sights if each.is_whole or each.event == "decides"]
        self._ops = [(op.invoke.time, (op.completion or op.invoke).time) for op in run.events.fault_ops]
        self._all = frozenset(run.reported.nodes)
        self._end_ns = max((each.time for each in run.reported.sights), default=0)

    def lasts(self, begin_ns: int, end_ns: int, over_ns: int = 0) -> bool:
        """Whether it was calm for a whole stretch, and nothing was wrong with a node itself.

        Where the run was over before its end, it was not. The last row is taken for the end of the run, unless
        `over_ns` is later: where nodes may have had nothing to report.
        """
        if end_ns > max(self._end_ns, over_ns) or not self._is_left_alone(begin_ns, end_ns):
            return False
        seen: dict[str, frozenset[str]] = {}
        for each in self._whole:
            if each.time >= end_ns:
                break
            if each.is_whole:
                if each.time >= begin_ns and each.alive != self._all:
                    return False
                seen[each.node] = each.alive
        return len(seen) == len(self._all)

    def _is_left_alone(self, begin_ns: int, end_ns: int) -> bool:
        if any(began < end_ns and done > begin_ns for began, done in self._ops):
            return False
        troubles = self._run.troubles
        return all(
            troubles.longest_without(node, begin_ns, end_ns) >= end_ns - begin_ns for node in self._run.reported.nodes
        )

    def apart(self) -> Iterator[Stretch]:
        """Stretches in which all saw all, all served, one ran apart from another, and nothing was decided."""
        now: dict[str, Sight] = {}
        stretch: Stretch | None = None
        for each in self._whole:
            decided = each.event == "decides"
            if not decided:
                now[each.node] = each
            goes_on = not decided and self._is_apart(now)
            if stretch is not None and goes_on and self._is_left_alone(stretch.begin_ns, each.time):
                stretch = stretch._replace(last=each)
                continue
            if stretch is not None:
                yield stretch
            stretch = self._begun(now, each) if goes_on else None
        if stretch is not None:
            yield stretch

    def _begun(self, now: Mapping[str, Sight], last: Sight) -> Stretch:
        return Stretch(last.time, next(sight for sight in now.values() if sight.apart), last)

    def _is_apart(self, now: Mapping[str, Sight]) -> bool:
        return (
            len(now) == len(self._all)
            and all(each.alive == self._all and each.row.role == RUNNING for each in now.values())
            and any(each.apart for each in now.values())
        )
