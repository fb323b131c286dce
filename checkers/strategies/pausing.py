"""MN-5, MN-6 and MN-8: a node that is not with enough others stops serving, and serves again once it is.

    did-not-pause      a node saw too few others, and its database did not stop
    answered           a node whose database had stopped acknowledged an op
    paused-in-vain     a database stopped although the node saw enough others
    stayed-paused      a node that had stopped saw enough others, and did not start
    served-in-partial  a node learned of a partial partition, and did not stop (pause-minority)
    resumed-too-soon   a node that had stopped for a partial partition started before it saw all (pause-minority)
    left-partial       it may go on, and did not make it whole (pause-if-all-down)
    partial-unseen     nodes saw what makes a partial partition, and none of them did anything

What enough is, differs: for pause-minority more than half of all nodes, itself included; for pause-if-all-down one of
those that are listed. A node is judged by what it saw itself; `strategy-down` judges whether it saw what there was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import pyarrow as pa

from splitbrain.checkers.consensus.findings import Finding
from splitbrain.checkers.strategies import partial
from splitbrain.checkers.strategies.answers import answered_while_stopped
from splitbrain.checkers.strategies.sights import STOPPED, Setup, Sight, words_of
from splitbrain.checkers.strategies.unseen import unseen
from splitbrain.checkers.strategies.verdicts import Run, run_of, verdict
from splitbrain.checkers.verdict import OfOneRun, Verdict, Whole
from splitbrain.results.quantities import counted

RESUME_NS: Final = 5_000_000_000
"""So long a node that has stopped may see enough others: it looks each second, and may be slow."""


class Pausing(OfOneRun, ABC):
    """What both checkers share.

    Unknown: no link was cut, or no node came to see too few others. The figures: `paused`, the nodes that did;
    `pauses`, how often one stopped; `partial`, how often a node learned of a partial partition; `cuts` and `broken`.
    """

    name: ClassVar[str]
    partition: Whole = "whole run"
    enough: ClassVar[str]

    @abstractmethod
    def is_enough(self, alive: frozenset[str], setup: Setup) -> bool:
        """Whether a node that sees these may serve."""

    @abstractmethod
    def in_partial(self, run: Run) -> Iterator[Finding]:
        """What is wrong about partial partitions."""

    def check(self, history: pa.Table, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge a run: its nemesis ops and answers, and the telemetry of its nodes.

        Raises:
            HistoryFormatError: a row does not say what it counts in the form `n1=17`.
        """
        run = run_of(self.name, history, telemetry, options)
        setup = run.reported.setup

        def may_serve(sight: Sight) -> bool:
            return self.is_enough(sight.alive, setup)

        found = [finding for life in run.reported.lives for finding in self._of_life(run, life, may_serve)]
        found += [*self.in_partial(run), *unseen(run), *answered_while_stopped(run, history)]
        few = sorted(
            {each.node for each in run.reported.sights if each.is_whole and each.alive and not may_serve(each)}
        )
        pauses = sum(each.event == "pauses" for each in run.reported.sights)
        praise = (
            f"{counted(len(few), 'node')} came to see {self.enough}, and stopped each time ({pauses} pauses in all) "
            "until that was over."
        )
        occasion = None if few and pauses else f"no node that served came to see {self.enough}."
        figures = {"paused": len(few), "pauses": pauses, "partial": partial.count(run)}
        return verdict(self.name, run, found, praise, figures, occasion)

    def _of_life(self, run: Run, life: Sequence[Sight], may_serve: Callable[[Sight], bool]) -> Iterator[Finding]:
        yield from self._did_not_pause(run, life, may_serve)
        yield from _paused_in_vain(run, life, may_serve)
        yield from _stayed_paused(run, life, may_serve)

    def _did_not_pause(self, run: Run, life: Sequence[Sight], may_serve: Callable[[Sight], bool]) -> Iterator[Finding]:
        """The first row of each stretch in which it served though it must not."""
        wrong = False
        for each in life:
            if each.is_whole:
                before, wrong = wrong, each.serves and not may_serve(each)
                if wrong and not before:
                    words = (
                        f"Did not pause: {each.node} saw {words_of(each.alive)} of {run.reported.setup.size} nodes "
                        f"({each.row.at}), {self.enough}, and went on serving"
                    )
                    yield run.finding("did-not-pause", words, each)


def _paused_in_vain(run: Run, life: Sequence[Sight], may_serve: Callable[[Sight], bool]) -> Iterator[Finding]:
    heard_of_partial = False
    for each in life:
        if each.event == "pauses" and may_serve(each) and not heard_of_partial:
            words = f"Paused in vain: {each.node} saw {words_of(each.alive)} ({each.row.at}), and stopped"
            yield run.finding("paused-in-vain", words, each)
        heard_of_partial = each.event == "partial" or (heard_of_partial and not each.is_whole)


def _stayed_paused(run: Run, life: Sequence[Sight], may_serve: Callable[[Sight], bool]) -> Iterator[Finding]:
    """Stretches that are too long; one that waits for all, or restarts to heal a partition, is not judged."""
    since: Sight | None = None
    excused = heard_of_partial = False
    for each in life:
        if each.event == "partial":
            heard_of_partial = True
        if each.event == "loses" or (each.event == "pauses" and heard_of_partial):
            excused = True
        if each.event == "resumes":
            excused = heard_of_partial = False
        if each.row.role != STOPPED or excused or not may_serve(each):
            since = None
        elif since is None:
            since = each
        elif run.troubles.longest_without(each.node, since.time, each.time) > RESUME_NS:
            words = (
                f"Stayed paused: {each.node} had stopped, saw {words_of(each.alive)} from {since.time / 1e9:.1f} s on, "
                f"and had not started {(each.time - since.time) / 1e9:.1f} s later"
            )
            yield run.finding("stayed-paused", words, since, each)
            return


class StrategyPauseMinority(Pausing):
    """Pause-minority. No options."""

    name = "strategy-pause-minority"
    enough = "half of all nodes or fewer"

    def is_enough(self, alive: frozenset[str], setup: Setup) -> bool:
        """More than half of all nodes."""
        return 2 * len(alive) > setup.size

    def in_partial(self, run: Run) -> Iterator[Finding]:
        """It stops, until it sees all."""
        yield from partial.not_paused(run)
        for life in run.reported.lives:
            for_all: Sight | None = None
            for each in life:
                if each.event == "partial":
                    for_all = each
                elif each.event == "resumes":
                    if for_all is not None and len(each.alive) < run.reported.setup.size:
                        words = (
                            f"Resumed too soon: {each.node} had stopped for a partial partition ({for_all.row.at}), "
                            f"saw {words_of(each.alive)}, not all nodes, and started again ({each.row.at})"
                        )
                        yield run.finding("resumed-too-soon", words, for_all, each)
                    for_all = None


class StrategyPauseIfAllDown(Pausing):
    """Pause-if-all-down, with either way to recover. No options."""

    name = "strategy-pause-if-all-down"
    enough = "none of the listed nodes"

    def is_enough(self, alive: frozenset[str], setup: Setup) -> bool:
        """One of those that are listed."""
        return bool(alive & setup.listed) or not setup.listed

    def in_partial(self, run: Run) -> Iterator[Finding]:
        """One that may go on makes it whole."""
        return partial.not_made_whole(run, lambda reported: self.is_enough(reported.alive, run.reported.setup))
