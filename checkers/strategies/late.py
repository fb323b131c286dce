"""MN-2: nodes that others do not take for down in time, by the faults of the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from splitbrain.checkers.consensus.findings import Finding
from splitbrain.checkers.strategies.sights import words_of
from splitbrain.checkers.strategies.timelines import Timelines
from splitbrain.checkers.strategies.verdicts import Run

NOTICE_NS: Final = 2_000_000_000
"""What a node may take beyond 1.25 of its tick time to declare another one down: messages on the way, slow clocks."""


def did_not_notice(run: Run) -> Iterator[Finding]:
    """Nodes that still see another one, although a cut let nothing come from it for longer than the limit."""
    limit_ns = run.reported.setup.tick_ms * 1_250_000 + NOTICE_NS
    timelines = Timelines(run.reported, run.events)
    for cut in run.cuts:
        for life in run.reported.lives:
            before = [each for each in life if each.time <= cut.end_ns and each.is_whole]
            if not before or life[0].time > cut.begin_ns:
                continue
            if not timelines.may_have_lived(life[0].node, life[0].time, cut.end_ns):
                continue
            last = before[-1]
            unnoticed = last.alive & cut.unheard(last.node)
            free_ns = run.troubles.longest_without(last.node, cut.begin_ns, cut.end_ns)
            if unnoticed and free_ns > limit_ns:
                words = (
                    f"Did not notice: {last.node} still saw {words_of(unnoticed)} {free_ns / 1e9:.1f} s after nothing "
                    f"could come from there; its tick time is {run.reported.setup.tick_ms / 1000:g} s"
                )
                yield run.finding("did-not-notice", words, last, at_ns=cut.begin_ns)
