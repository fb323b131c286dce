"""MN-8: partial partitions after which no node acted, although three nodes together saw them.

One node loses a second one, and a third one sees both all the time. The third one has to say so to the first, which
ends its session with the third, or stops. The judge reads whom the three see, not what they say of partial partitions.

A process ran on if other nodes see it for so long that they would have noticed its end.

A question goes from the first over the third to the second, and its answer the same way back. A message may be held up
for as long as a session outlives silence: 1.25 tick times for each of the four.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from splitbrain.checkers.consensus.findings import Finding
from splitbrain.checkers.strategies.disturbed import Disturbed
from splitbrain.checkers.strategies.sights import Sight
from splitbrain.checkers.strategies.timelines import SLACK_NS, Timelines
from splitbrain.checkers.strategies.verdicts import Run

TICKS: Final = 5
"""Four messages take at most so many tick times, where all sessions last."""

MORE_NS: Final = 3_000_000_000
"""What they may take beside: half a second each until they are sent again, and slow nodes."""

OF_FAULTS_NS: Final = 250_000_000
"""How far times of a node and of the nemesis may be apart."""


class Loss(NamedTuple):
    """A node that saw another one no more.

    Attributes:
        sight: the row that shows it.
        lost: the other one.
        since_ns: when it had seen that first.
    """

    sight: Sight
    lost: str
    since_ns: int


def unseen(run: Run) -> Iterator[Finding]:
    """Losses of which a third node must have said that they are partial, and after which the node served on."""
    if not run.reported.is_complete:
        return
    judge = _Judge(run)
    for life in run.reported.lives:
        since: dict[str, int] = {}
        for each in life:
            if each.is_whole:
                for lost in sorted(since.keys() - each.alive):
                    yield from judge.of_loss(Loss(each, lost, since.pop(lost)))
                for other in each.alive - {each.node}:
                    since.setdefault(other, each.time)


class _Judge:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._timelines = Timelines(run.reported, run.events)
        self._disturbed = Disturbed(run.events)
        self._tick_ns = run.reported.setup.tick_ms * 1_000_000
        self._lasts_ns = TICKS * self._tick_ns + MORE_NS

    def of_loss(self, loss: Loss) -> Iterator[Finding]:
        """A finding, if a third node saw both, and the node went on as before."""
        sight, lost = loss.sight, loss.lost
        if self._noticed_ns(loss) > self._run.events.end_ns:
            return
        if not self._went_on(loss) or not self._is_of_one_process(loss):
            return
        third = next((each for each in sorted(sight.alive - {sight.node}) if self._saw_both(each, loss)), None)
        if third is not None:
            words = (
                f"Partial partition unseen: {sight.node} lost {lost} ({sight.row.at}), {third} saw both for "
                f"{self._lasts_ns / 1e9:g} s, and {sight.node} kept its session with {third}, and served on"
            )
            yield self._run.finding("partial-unseen", words, sight)

    def _went_on(self, loss: Loss) -> bool:
        """Whether the node served on, and did not see the lost one again."""
        begin_ns = loss.sight.time
        shown = self._timelines.shown(loss.sight.node, begin_ns, begin_ns + self._lasts_ns)
        return all(loss.lost not in each.alive and each.serves for each in shown if each.time >= begin_ns)

    def _is_of_one_process(self, loss: Loss) -> bool:
        """Whether the process that was lost ran on: no node asks for one in whose place another one runs."""
        begin_ns, end_ns = loss.since_ns + SLACK_NS, self._noticed_ns(loss)
        anew = any(abs(each - loss.since_ns) <= SLACK_NS for each in self._timelines.restarts(loss.lost))
        return self._timelines.may_have_lived(loss.lost, begin_ns, end_ns) and not anew

    def _saw_both(self, third: str, loss: Loss) -> bool:
        """Whether a third node could ask the lost one, and answer, and did not lose its session with any of the two."""
        node, lost_ns = loss.sight.node, loss.sight.time
        begin_ns, end_ns = lost_ns - SLACK_NS, self._noticed_ns(loss)
        saw = self._timelines.saw
        return (
            all(self._timelines.may_have_lived(each, begin_ns, end_ns) for each in (node, third))
            and saw(node, {third}, begin_ns, end_ns)
            and saw(third, {node, loss.lost}, begin_ns, end_ns)
            and saw(loss.lost, {third}, begin_ns, end_ns)
            and not any(
                self._disturbed.between(third, each, lost_ns - OF_FAULTS_NS, lost_ns + self._lasts_ns)
                for each in (node, loss.lost)
            )
        )

    def _noticed_ns(self, loss: Loss) -> int:
        """When the end of a process that did not end in time would have been noticed."""
        return loss.sight.time + self._lasts_ns + 2 * self._tick_ns
