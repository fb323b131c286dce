"""Feature flags are enabled on all nodes or on none, stay so, and come after what they depend on (FF-1 to FF-3, D6).

    subset          a flag was known to be enabled, and a node answered later that it is disabled
    disabled-again  a node had answered that a flag is enabled, and answered later that it is not
    dependency      a node answered that a flag is enabled, and not one that it depends on
    unasked         a flag was enabled that no client had asked for, or only clients that were refused
    disagreement    after all faults, and with nothing under way on either, two nodes differed in a flag, and no request
                    can have enabled it between the answer that it is disabled and the other one
    half-way        after all faults a flag still changed on a node, each time that it was asked for 15 s, while all
                    nodes answered: what was begun there is neither done nor undone (D6)

Nodes may learn of a change one after the other: until then a node answers that the flag changes there. It never answers
that it is disabled, as all nodes have agreed to a change before it is decided. O(n f) for n answers and f flags.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

import msgspec
import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.calls import Calls, cell, client_calls, shaped
from splitbrain.results.errors import UsageError
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

HALF_WAY_NS: Final = 15_000_000_000
"""A member that hears nothing of an operation takes it over within 4 s (`splitbrain.cluster.flags.machine`)."""


_NEVER: Final = 2**62
"""Later than every row."""


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Attributes: enable and list are the names of the functions."""

    enable: str = "enable-flag"
    list: str = "list-flags"


class Listed(msgspec.Struct, frozen=True):
    """What a node answered; `invoke` and `complete` are rows.

    `last`: it was asked after all faults; `at_rest`: then, and nothing changed there.
    """

    invoke: int
    complete: int
    node: str
    last: bool
    at_rest: bool
    enabled: frozenset[int]
    changing: frozenset[int]
    needs: Mapping[int, tuple[int, ...]]


class _Answer(msgspec.Struct, frozen=True):
    """What `list-flags` answers: flags, and each with what it needs."""

    enabled: frozenset[int]
    changing: frozenset[int]
    needs: list[tuple[int, ...]]


class Asked(msgspec.Struct, frozen=True):
    """A request to enable a flag."""

    invoke: int
    complete: int
    flag: int
    how: str


class Flags(OfOneRun):
    """Judges one run; its options are the fields of `Options`."""

    name = "flags"
    partition: Partition = "run"

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        wanted = msgspec.convert(dict(options), Options)
        return wanted.enable, wanted.list

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run.

        Raises:
            UsageError: an option is wrong.
        """
        try:
            wanted = msgspec.convert(dict(options), Options)
        except msgspec.ValidationError as error:
            raise UsageError(f"checker flags: {error}; it takes enable and list.") from None
        calls = client_calls(history)
        listed, asked = list(_listed(calls, wanted.list)), list(_asked(calls, wanted.enable))
        judge = _Judge(history, listed, asked)
        findings = sorted(judge.findings(), key=lambda found: found.rows[-1])
        enabled = {flag for each in listed for flag in each.enabled}
        at_rest = {each.node for each in listed if each.at_rest}
        figures = {"flags": len(enabled), "answers": len(listed), "requests": len(asked), "at_rest": len(at_rest)}
        if findings:
            return by_key.violated(self.name, history, findings, figures)
        return self._without_findings(figures)

    def _without_findings(self, figures: dict[str, Any]) -> Verdict:
        problem = ""
        if not figures["flags"]:
            problem = "no node ever answered that a flag is enabled."
        elif figures["at_rest"] < 2:
            problem = "after all faults fewer than two nodes answered with no change under way."
        if problem:
            reason = Reason(Code.READS_SAW_NOTHING, f"Unknown: {problem}")
            return Verdict(
                checker=self.name, valid="unknown", sentence=reason.sentence, inconclusive=(reason,), figures=figures
            )
        sentence = (
            f"{counted(figures['flags'], 'flag')} {'was' if figures['flags'] == 1 else 'were'} enabled on all nodes, "
            f"each after what it depends on, and stayed so in {counted(figures['answers'], 'answer')}."
        )
        return Verdict(checker=self.name, valid="true", algorithm="scan", sentence=sentence, figures=figures)


def _listed(calls: Calls, f: str) -> Iterator[Listed]:
    chosen = calls.are(f) & (calls.ended("ok") | calls.ended("fail"))
    for invoke, complete in zip(calls.invoke[chosen].tolist(), calls.complete[chosen].tolist(), strict=True):
        if not isinstance(cell(calls.table, "value", complete), Mapping):
            continue  # the node gave no answer; one whose flags still change fails with what it answered
        answer = shaped(calls.table, complete, _Answer)
        last = cell(calls.table, "value", invoke) is True
        yield Listed(
            invoke,
            complete,
            cell(calls.table, "node", complete) or "",
            last,
            last and cell(calls.table, "type", complete) == "ok",
            answer.enabled,
            answer.changing,
            {each[0]: each[1:] for each in answer.needs if each},
        )


def _asked(calls: Calls, f: str) -> Iterator[Asked]:
    for how in ("ok", "info", "fail"):
        chosen = calls.are(f) & calls.ended(how)
        for invoke, complete in zip(calls.invoke[chosen].tolist(), calls.complete[chosen].tolist(), strict=True):
            yield Asked(invoke, complete, shaped(calls.table, invoke, int), how)


class _Judge:
    """One run, in rows of its table: row order is real-time order."""

    def __init__(self, table: pa.Table, listed: Sequence[Listed], asked: Sequence[Asked]) -> None:
        self._table = table
        self._listed = listed
        self._asked = asked

    def findings(self) -> Iterator[Finding]:
        """For each anomaly and flag one finding, the earliest."""
        yield from self._subset()
        yield from self._disabled_again()
        yield from self._dependency()
        yield from self._unasked()
        yield from self._disagreement()
        yield from self._half_way()

    def _subset(self) -> Iterator[Finding]:
        known: dict[int, tuple[int, str]] = {}
        for each in self._listed:
            for flag in each.enabled:
                _earlier(known, flag, each.complete, f"{self._at(each.complete)} answered that flag {flag} is enabled")
        for each in self._asked:
            if each.how == "ok":
                words = f"a request to enable flag {each.flag} was acknowledged by {self._at(each.complete)}"
                _earlier(known, each.flag, each.complete, words)
        found: set[int] = set()
        for each in sorted(self._listed, key=lambda one: one.complete):
            for flag in sorted(known.keys() - each.enabled - each.changing - found):
                row, words = known[flag]
                if row < each.invoke:
                    found.add(flag)
                    sentence = f"Subset: {words}, and {self._at(each.complete)}, asked after that, that it is disabled."
                    yield Finding("subset", sentence, (row, each.invoke, each.complete))

    def _disabled_again(self) -> Iterator[Finding]:
        known: dict[tuple[str, int], tuple[int, str]] = {}
        for each in self._listed:
            for flag in (
                each.enabled if each.node else ()
            ):  # of answers that name no node it is not known whose they are
                _earlier(known, (each.node, flag), each.complete, "")
        found: set[tuple[str, int]] = set()
        for each in sorted(self._listed, key=lambda one: one.complete):
            for (node, flag), (row, _) in known.items():
                if node != each.node or flag in each.enabled or row >= each.invoke or (node, flag) in found:
                    continue
                found.add((node, flag))
                now = "changes" if flag in each.changing else "is disabled"
                sentence = (
                    f"Disabled again: {self._at(row)} answered that flag {flag} is enabled, and, asked again, at "
                    f"{by_key.moment(self._table, each.complete)} that it {now}."
                )
                yield Finding("disabled-again", sentence, (row, each.invoke, each.complete))

    def _dependency(self) -> Iterator[Finding]:
        found: set[tuple[int, int]] = set()
        for each in self._listed:
            lacking = [(flag, need) for flag in sorted(each.enabled) for need in each.needs.get(flag, ())]
            for flag, need in lacking:
                if need not in each.enabled and (flag, need) not in found:
                    found.add((flag, need))
                    sentence = (
                        f"Dependency: {self._at(each.complete)} answered that flag {flag} is enabled, and flag {need}, "
                        "on which it depends, is not."
                    )
                    yield Finding("dependency", sentence, (each.complete,))

    def _above(self) -> dict[int, set[int]]:
        """By flag those that depend on it, or on one that does: a request enables all of them (FF-2)."""
        direct: dict[int, set[int]] = {}
        for each in self._listed:
            for flag, needed in each.needs.items():
                for need in needed:
                    direct.setdefault(need, set()).add(flag)
        return {need: _reached(direct, need) for need in direct}

    def _unasked(self) -> Iterator[Finding]:
        above = self._above()
        first: dict[int, int] = {}
        for each in self._asked:
            if each.how != "fail":
                first[each.flag] = min(each.invoke, first.get(each.flag, each.invoke))
        begun = dict(first)
        for each in self._asked:  # a refused request may have enabled what its flag depends on
            for need in [need for need, flags in above.items() if each.flag in flags]:
                begun[need] = min(each.invoke, begun.get(need, each.invoke))
        found: set[int] = set()
        for each in sorted(self._listed, key=lambda one: one.complete):
            for flag in sorted(each.enabled - found):
                if begun.get(flag, each.complete) >= each.complete:
                    found.add(flag)
                    sentence = (
                        f"Unasked: {self._at(each.complete)} answered that flag {flag} is enabled, and no request for "
                        "it had begun by then that was not refused."
                    )
                    yield Finding("unasked", sentence, (each.complete,))

    def _disagreement(self) -> Iterator[Finding]:
        """Of a flag the first answers that differ: it is enough to look at the tightest pair of those that there were.

        That is the first one that shows it enabled, and the one that was asked for last of those that do not: what may
        have come between these may have come between all.
        """
        at_rest = sorted((each for each in self._listed if each.at_rest), key=lambda one: one.complete)
        above = self._above()
        for flag in sorted({flag for each in at_rest for flag in each.enabled}):
            requests = _Requests(each for each in self._asked if each.flag == flag or each.flag in above.get(flag, ()))
            has = lacks = None
            for each in at_rest:
                if flag in each.enabled:
                    has = has or each
                elif lacks is None or each.invoke > lacks.invoke:
                    lacks = each
                if has and lacks and not requests.may_be_between(lacks.invoke, has.complete):
                    sentence = (
                        f"Disagreement: after all faults {self._at(has.complete)} answered that flag {flag} is "
                        f"enabled, and {self._at(lacks.complete)} that it is disabled; nothing changed any more."
                    )
                    yield Finding("disagreement", sentence, tuple(sorted((has.complete, lacks.complete))))
                    break

    def _half_way(self) -> Iterator[Finding]:
        last = [each for each in self._listed if each.last]
        nodes = {node for node in self._table.column("node").to_pylist() if node}
        restless = {each.node for each in last if each.changing} - {each.node for each in last if each.at_rest}
        if not last or {each.node for each in last} != nodes:
            return  # what is begun is decided only where all nodes can be reached
        all_answered = max(min(each.complete for each in last if each.node == node) for node in nodes)
        for node in sorted(restless):
            answers = [each for each in last if each.node == node and each.complete >= all_answered]
            answers.sort(key=lambda one: one.complete)
            if len(answers) < 2:
                continue
            first, end = answers[0], answers[-1]
            length_ns = cell(self._table, "time", end.invoke) - cell(self._table, "time", first.complete)
            for flag in sorted(first.changing.intersection(*(each.changing for each in answers))):
                if length_ns >= HALF_WAY_NS:
                    sentence = (
                        f"Half way: after all faults {self._at(first.complete)} answered that flag {flag} changes, and "
                        f"{len(answers) - 1} times more, until {by_key.moment(self._table, end.complete)}: it is "
                        "neither enabled nor disabled there."
                    )
                    yield Finding("half-way", sentence, (first.complete, end.invoke, end.complete))

    def _at(self, row: int) -> str:
        return by_key.answer(self._table, row)


class _Requests:
    """Requests, each with what may be its effect: at any time after it was asked for if it was not answered."""

    def __init__(self, requests: Iterable[Asked]) -> None:
        found = sorted(requests, key=lambda each: each.invoke)
        self._invokes = [each.invoke for each in found]
        self._untils = list(accumulate((_NEVER if each.how == "info" else each.complete for each in found), max))

    def may_be_between(self, first: int, second: int) -> bool:
        """Whether one may have taken effect after the row `first` and before the row `second`."""
        at = bisect_left(self._invokes, second)
        return second > first and at > 0 and self._untils[at - 1] > first


def _reached(direct: Mapping[int, Collection[int]], flag: int) -> set[int]:
    """All flags to which a way leads from this one."""
    found = set[int]()
    left = [flag]
    while left:
        more = set(direct.get(left.pop(), ())) - found
        found |= more
        left += more
    return found


def _earlier(known: dict[Any, tuple[int, str]], key: Any, row: int, words: str) -> None:
    if key not in known or row < known[key][0]:
        known[key] = (row, words)
