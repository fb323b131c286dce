"""Nodes that find each other form one cluster, and a node that is done is in it (PD-3, PD-4).

    two-clusters   two nodes answered that each of them founded a cluster
    split          two nodes answered that they are in clusters without a common member, or, at rest, in
                   clusters of which neither has all members of the other
    left-out       at rest a node was done with looking for a cluster, and in none

Members are only added while a cluster forms, beginning with its founder. An addition may be taken back before it is
committed; at rest, of two answers about one cluster, one has all members of the other.
A node that gives up, and says so as it ends, keeps the promise: the harness notes that it ended. O(n) for n answers,
and O(m^2) for m different lists of members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import msgspec
import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.calls import cell, client_calls, shaped
from splitbrain.results.errors import UsageError
from splitbrain.results.faults import run_events
from splitbrain.results.notes import NodeEnded
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Attributes: ask is the name of the function."""

    ask: str = "ask-formation"


class Said(msgspec.Struct, frozen=True):
    """What a node answered; `complete` is a row. `at_rest`: asked after all faults, once no node looked any more."""

    complete: int
    node: str
    at_rest: bool
    done: bool
    founded: bool
    members: frozenset[str]


class _Answer(msgspec.Struct, frozen=True):
    """What `ask-formation` answers."""

    phase: str
    founded: bool
    members: frozenset[str]


class OneCluster(OfOneRun):
    """Judges one run; its options are the fields of `Options`."""

    name = "one-cluster"
    partition: Partition = "run"

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        return (msgspec.convert(dict(options), Options).ask,)

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run.

        Raises:
            UsageError: an option is wrong.
        """
        try:
            wanted = msgspec.convert(dict(options), Options)
        except msgspec.ValidationError as error:
            raise UsageError(f"checker one-cluster: {error}; it takes ask.") from None
        said = list(_said(history, wanted.ask))
        findings = sorted([*_two(history, said), *_split(history, said), *_left_out(history, said)], key=_last_row)
        gave_up = {ended.node for _, ended in run_events(history).notes("halt", NodeEnded)}
        settled = {each.node for each in said if each.at_rest and each.members}
        figures = {
            "answers": len(said),
            "founders": len({each.node for each in said if each.founded}),
            "members": max((len(each.members) for each in said), default=0),
            "settled": len(settled),
            "gave_up": len(gave_up),
        }
        if findings:
            return by_key.violated(self.name, history, findings, figures)
        if len(settled) < 2:
            sentence = "Unknown: after all faults fewer than two nodes answered that they are in a cluster."
            reason = Reason(Code.READS_SAW_NOTHING, sentence)
            return Verdict(
                checker=self.name, valid="unknown", sentence=sentence, inconclusive=(reason,), figures=figures
            )
        up = f", {counted(len(gave_up), 'node')} gave up at first and said why" if gave_up else ""
        sentence = f"There was one cluster, and {counted(len(settled), 'node')} ended in it{up}."
        return Verdict(checker=self.name, valid="true", algorithm="scan", sentence=sentence, figures=figures)


def _said(history: pa.Table, f: str) -> Iterator[Said]:
    calls = client_calls(history)
    chosen = calls.are(f) & calls.ended("ok")
    for invoke, complete in zip(calls.invoke[chosen].tolist(), calls.complete[chosen].tolist(), strict=True):
        answer = shaped(history, complete, _Answer)
        yield Said(
            complete,
            cell(history, "node", complete) or "",
            cell(history, "value", invoke) == "at rest",
            answer.phase == "done",
            answer.founded,
            answer.members,
        )


def _last_row(found: Finding) -> int:
    return found.rows[-1]


def _two(history: pa.Table, said: Sequence[Said]) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for each in said:
        if each.founded:
            first[each.node] = min(each.complete, first.get(each.node, each.complete))
    founders = sorted(first.values())
    if len(founders) > 1:
        a, b = founders[:2]
        sentence = (
            f"Two clusters: {by_key.answer(history, a)} answered that it founded the cluster, and so did "
            f"{by_key.answer(history, b)}."
        )
        yield Finding("two-clusters", sentence, (a, b))


def _split(history: pa.Table, said: Sequence[Said]) -> Iterator[Finding]:
    lists: dict[tuple[frozenset[str], bool], int] = {}
    for each in sorted(said, key=lambda one: one.complete):
        if each.members:
            lists.setdefault((each.members, each.at_rest), each.complete)
    for ((one, one_rests), a), ((other, other_rests), b) in combinations(lists.items(), 2):
        nested = one <= other or other <= one
        if not one & other or (one_rests and other_rests and not nested):
            sentence = (
                f"Split: {by_key.answer(history, a)} answered that the members are {', '.join(sorted(one))}, and "
                f"{by_key.answer(history, b)} that they are {', '.join(sorted(other))}."
            )
            yield Finding("split", sentence, tuple(sorted((a, b))))
            return


def _left_out(history: pa.Table, said: Sequence[Said]) -> Iterator[Finding]:
    found: set[str] = set()
    for each in said:
        if each.at_rest and each.done and not each.members and each.node not in found:
            found.add(each.node)
            sentence = (
                f"Left out: {by_key.answer(history, each.complete)} answered that it looks for no cluster any more, "
                "and it is in none."
            )
            yield Finding("left-out", sentence, (each.complete,))
