"""MN-7 and MN-8: once all nodes see each other, one partition wins, and the nodes of the others take its tables.

    wrong-leader         a node decided that is not the first of all by name
    decided-blind        a node decided, although one had not answered, or did not see another one
    wrong-winner         not the partition won that wins by its clients, its nodes and its names
    winner-restarted     a node restarted that had not lost: what it acknowledged may be gone
    restarted-undecided  a node restarted, and nothing was decided before
    loser-ran-on         a node that had lost did not restart
    loser-stayed-down    it stopped, and did not serve again
    kept-own-tables      it restarted, and served its own tables, although it and the winner, which ran, saw each other
    no-heal              all nodes saw each other, some ran apart, and nothing was decided
    left-partial         a node learned of a partial partition, and did not make it whole
    partial-unseen       nodes saw what makes one, and none of them did anything

That losers restart, and that there is a decision, takes time: it is judged where, for as long, all nodes reported that
they saw all others, and no op of the nemesis came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from splitbrain.checkers.consensus.findings import Finding
from splitbrain.checkers.strategies import partial
from splitbrain.checkers.strategies.calm import Calm
from splitbrain.checkers.strategies.decision import Decision, decisions, documented
from splitbrain.checkers.strategies.sights import RUNNING, Sight, words_of
from splitbrain.checkers.strategies.timelines import Timelines
from splitbrain.checkers.strategies.unseen import unseen
from splitbrain.checkers.strategies.verdicts import Run, run_of, verdict
from splitbrain.checkers.verdict import OfOneRun, Verdict, Whole
from splitbrain.results.quantities import counted

STOPS_NS: Final = 5_000_000_000
"""So long a loser may take to stop, from the decision on."""

SERVES_NS: Final = 20_000_000_000
"""So long it may take to serve again, from the decision on."""

HEALS_NS: Final = 25_000_000_000
"""So long nodes may run apart that see each other: a leader asks ten times if nodes disagree (1 s each), and a node
that is asked may take 5 s."""

BEFORE_NS: Final = 1_000_000_000
"""How far the clocks of two nodes may be apart."""

VALID_NS: Final = 70_000_000_000
"""For so long a loser may restart for a decision: messages arrive late, and it waits a minute."""


class StrategyAutoheal(OfOneRun):
    """Judges each decision, each restart, and each stretch in which nodes run apart though they see each other.

    No options. Unknown: no link was cut, or nothing was decided. The figures: `decisions`; `restarts` of nodes that
    lost; `partial`, how often a node learned of a partial partition; `cuts` and `broken`.
    """

    name = "strategy-autoheal"
    partition: Whole = "whole run"
    counts_ops = True

    def check(self, history: pa.Table, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge a run: its nemesis ops, and the telemetry of its nodes.

        Raises:
            HistoryFormatError: a row does not say what it counts in the form `n1=17`.
        """
        run = run_of(self.name, history, telemetry, options)
        decided = decisions(run.reported.lives)
        stops = ("loses", "pauses") if run.reported.setup.strategy == "autoheal" else ("loses",)
        restarts = [each for each in run.reported.sights if each.event in stops]
        found: list[Finding] = []
        if run.reported.is_complete:
            calm = Calm(run)
            found += [finding for each in decided for finding in _of_decision(run, each)]
            found += [finding for each in decided for finding in _of_losers(run, each, calm)]
            found += [finding for each in restarts for finding in _of_restart(run, each, decided)]
            found += _no_heal(run, calm)
            if run.reported.setup.strategy == "autoheal":
                found += [*partial.not_made_whole(run), *unseen(run)]
        praise = (
            f"{counted(len(decided), 'decision')} of the first node let the right partition win, and "
            f"{counted(len(restarts), 'restart')} of nodes that lost followed."
        )
        figures = {"decisions": len(decided), "restarts": len(restarts), "partial": partial.count(run)}
        occasion = None if decided else "nothing was decided: no nodes ran apart when all saw each other again."
        return verdict(self.name, run, found, praise, figures, occasion)


def _of_decision(run: Run, decision: Decision) -> Iterator[Finding]:
    nodes, sight = run.reported.nodes, decision.sight
    what = f"{sight.node} decided that {decision.winner} wins and {words_of(decision.losers)} lose ({sight.row.at})"
    if sight.node != nodes[0]:
        yield run.finding("wrong-leader", f"Wrong leader: {what}, and {nodes[0]} is to decide", sight)
    blind = decision.blind_to(nodes)
    if blind is not None:
        words = f"Decided blind: {what}, although {blind[0]} did not say that it sees {blind[1]}"
        yield run.finding("decided-blind", words, *decision.answers.values(), sight)
        return
    winner, losers = documented(nodes, decision.answers)
    if (winner, losers) != (decision.winner, decision.losers):
        clients = ", ".join(f"{node} {each.row.applied_count}" for node, each in sorted(decision.answers.items()))
        words = (
            f"Wrong winner: {what}; by clients ({clients}), then nodes, then names {winner} wins and "
            f"{words_of(losers)} lose"
        )
        yield run.finding("wrong-winner", words, *decision.answers.values(), sight)


def _of_losers(run: Run, decision: Decision, calm: Calm) -> Iterator[Finding]:
    """Those that did not do what a loser does in time, where nothing came in between."""
    begin_ns = decision.sight.time
    for node in sorted(decision.losers):
        own = [each for each in run.reported.sights if each.node == node]
        stop = next((each for each in own if each.event == "loses" and each.time >= begin_ns - BEFORE_NS), None)
        if stop is None or stop.time > begin_ns + STOPS_NS:
            if calm.lasts(begin_ns, begin_ns + STOPS_NS):
                words = f"Loser ran on: {node} lost to {decision.winner} ({decision.sight.row.at}), and did not restart"
                yield run.finding("loser-ran-on", words, decision.sight)
            continue
        again = next((each for each in own if each.time > stop.time and each.row.role == RUNNING), None)
        if (again is None or again.time > begin_ns + SERVES_NS) and calm.lasts(begin_ns, begin_ns + SERVES_NS):
            words = f"Loser stayed down: {node} stopped for {decision.winner} ({stop.row.at}), and did not serve again"
            yield run.finding("loser-stayed-down", words, decision.sight, stop)


def _of_restart(run: Run, stop: Sight, decided: Sequence[Decision]) -> Iterator[Finding]:
    before = [each for each in decided if -BEFORE_NS <= stop.time - each.sight.time <= VALID_NS]
    lost = [each for each in before if stop.node in each.losers]
    what = f"{stop.node} stopped{f' for {stop.other}' if stop.other else ''} ({stop.row.at})"
    if not before:
        yield run.finding("restarted-undecided", f"Restarted undecided: {what}, and nobody had decided so", stop)
    elif not lost:
        words = (
            f"Winner restarted: {what}, and it had not lost: {before[-1].winner} had won ({before[-1].sight.row.at})"
        )
        yield run.finding("winner-restarted", words, before[-1].sight, stop)
    elif stop.other not in {each.winner for each in lost}:
        words = f"Restarted undecided: {what}, and it had lost to {lost[-1].winner}"
        yield run.finding("restarted-undecided", words, lost[-1].sight, stop)
    yield from _kept_own_tables(run, stop)


def _kept_own_tables(run: Run, stop: Sight) -> Iterator[Finding]:
    """What a node served behind a stop, in the same process.

    A loser that loses the winner before it has its tables is not to wait for it: RabbitMQ's starts what it has when the
    winner goes down, so that it does not get stuck (`rabbit_autoheal`). It runs apart, and the next heal decides anew.
    """
    life = next(each for each in run.reported.lives if stop in each)
    later = [each for each in life if each.time > stop.time]
    then = next((each for each in later if each.event in ("serves", "loses", "pauses")), None)
    if then is None or then.event != "serves" or then.other != stop.node:
        return
    own = [each for each in later if each.time <= then.time and each.is_whole]
    winner = Timelines(run.reported, run.events).shown(stop.other, stop.time - BEFORE_NS, then.time + BEFORE_NS)
    saw = all(stop.other in each.alive for each in own) and all(stop.node in each.alive for each in winner)
    if winner and saw and all(each.row.role in (RUNNING, None) for each in winner):
        words = (
            f"Kept own tables: {stop.node} stopped for {stop.other} ({stop.row.at}), and served its own ({then.row.at})"
        )
        yield run.finding("kept-own-tables", words, stop, then)


def _no_heal(run: Run, calm: Calm) -> Iterator[Finding]:
    """Stretches in which nodes run apart, all see all, and nothing was decided."""
    for begin_ns, apart, last in calm.apart():
        lasted_ns = last.time - begin_ns
        if lasted_ns > HEALS_NS:
            words = (
                f"No heal: all nodes saw each other from {begin_ns / 1e9:.1f} s on, {apart.node} ran apart from "
                f"{words_of(apart.apart)}, and nothing was decided in {lasted_ns / 1e9:.1f} s"
            )
            yield run.finding("no-heal", words, apart, last)
