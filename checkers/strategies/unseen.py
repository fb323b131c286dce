"""MN-8: a partial partition that all saw the parts of, and about which nobody did anything.

One node lost a second one, and a third one saw both all the time: then the first is told so, and ends its session with
the third, or stops. That is judged by what the three report of whom they see, whatever they say of partial partitions.

That a process ran on is known from those that go on seeing it for so long that they would have noticed its end.

A question goes from the first over the third to the second, and its answer the same way back. A message may be held up
for as long as a session outlives silence: 1.25 tick times for each of the four.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from splitbrain.checkers.consensus.findings import Finding
from splitbrain.checkers.strategies.disturbed import Disturbed
from splitbrain.checkers.strategies.sights import Sight
from splitbrain.checkers.strategies.timelines import Timelines
from splitbrain.checkers.strategies.verdicts import Run

TICKS: Final = 5
"""Four messages take at most so many tick times, where all sessions last."""

MORE_NS: Final = 3_000_000_000
"""What they may take beside: half a second each until they are sent again, and slow nodes."""

SLACK_NS: Final = 250_000_000
"""How far times of two nodes may be apart."""


def unseen(run: Run) -> Iterator[Finding]:
    """Losses that one third node at least must have told to be partial, and that changed nothing."""
    if not run.reported.is_complete:
        return
    timelines, disturbed = Timelines(run.reported, run.events), Disturbed(run.events)
    for life in run.reported.lives:
        since: dict[str, int] = {}
        for each in life:
            if each.is_whole:
                for lost in sorted(since.keys() - each.alive):
                    yield from _of_loss(run, timelines, disturbed, each, lost, since.pop(lost))
                for other in each.alive - {each.node}:
                    since.setdefault(other, each.time)


def _of_loss(
    run: Run, timelines: Timelines, disturbed: Disturbed, sight: Sight, lost: str, since_ns: int
) -> Iterator[Finding]:
    """The first third node that saw both, if the node went on as before; it had seen the lost one since `since_ns`."""
    node, begin_ns = sight.node, sight.time - SLACK_NS
    tick_ns = run.reported.setup.tick_ms * 1_000_000
    end_ns = sight.time + TICKS * tick_ns + MORE_NS
    noticed_ns = end_ns + 2 * tick_ns
    shown = [each for each in timelines.shown(node, sight.time, end_ns) if each.time >= sight.time]
    if noticed_ns > run.events.end_ns or any(lost in each.alive or not each.serves for each in shown):
        return
    # One process each: what was lost is not asked for where another process of that node is there.
    if not (
        timelines.may_have_lived(node, begin_ns, noticed_ns)
        and timelines.may_have_lived(lost, since_ns + SLACK_NS, noticed_ns)
    ):
        return
    for third in sorted(sight.alive - {node}):
        if (
            timelines.may_have_lived(third, begin_ns, noticed_ns)
            and timelines.saw(node, {third}, begin_ns, noticed_ns)
            and timelines.saw(third, {node, lost}, begin_ns, noticed_ns)
            and timelines.saw(lost, {third}, begin_ns, noticed_ns)
            and not any(disturbed.between(third, other, begin_ns, end_ns) for other in (node, lost))
        ):
            words = (
                f"Partial partition unseen: {node} lost {lost} ({sight.row.at}), {third} saw both for "
                f"{(end_ns - sight.time) / 1e9:g} s, and {node} kept its session with {third}, and served on"
            )
            yield run.finding("partial-unseen", words, sight)
            return
