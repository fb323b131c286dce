"""Do tables of projections hold what the tree holds, and does no node deny what it knew? O(n).

    wrong-record     a record that came was not, or not only, what had been put
    kept-record      a record was there after its node had gone with what kept it
    differs          at rest a node's table was not what its tree holds
    wrong-negative   a node answered that there is no record of a key of which it had answered, or acknowledged, one
    caught-up-early  a node answered none, or an overwritten one, of a key that was written in an earlier term than that
                     of the first leader of which it heard in that life

Records that are looked up are never removed. So a node that knew one may answer an old one, or that it does not know,
but never that there is none (KH-15). A node answers once it has caught up: it has applied an entry of the term of the
first leader of which it heard, or of a later term. All that was acknowledged in earlier terms comes before that entry.
The first leader is known from telemetry; of a system without it, nothing is judged so. Where a node is in several
groups, the lowest term counts, as telemetry does not say in which of them records are; and nothing is judged as long as
it has heard of no leader in one of them. Each group counts the lives of its members by itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.consensus.rows import rows
from splitbrain.checkers.verdict import OfOneRun, Verdict, Whole
from splitbrain.results.calls import cell, client_calls, shaped
from splitbrain.results.errors import UsageError
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason
from splitbrain.results.telemetry import DELETED
from splitbrain.results.values import canonical_json


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Attributes: look_up, write, come_and_go and compare are the names of the functions."""

    look_up: str = "read-projected"
    write: str = "write"
    come_and_go: str = "come-and-go"
    compare: str = "compare"


class _Answer(msgspec.Struct, frozen=True):
    """An op that was ok: rows of its invocation and completion, and what is in them; `time` is of the invocation."""

    invoke: int
    complete: int
    time: int
    term: int | None
    f: str
    key: str | None
    node: str
    value: Any
    result: Any


class _Life(msgspec.Struct):
    """One life of a node's member of a group: the term of the first leader of which it heard, None if it heard of none.

    `is_there` is false for the time after the node had deleted its member.
    """

    begin_ns: int
    is_there: bool
    term: int | None = None


_UNKNOWN: Final = "?"
"""The node of an answer that does not name one: others that name none may be of another node."""

_Lives: TypeAlias = dict[str, list[list[_Life]]]
"""By node, for each of its groups the lives of its member, in the order in which they began."""


class Projections(OfOneRun):
    """Judges one run; its options are the fields of `Options`."""

    name = "projections"
    partition: Whole = "whole run"

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        return tuple(msgspec.to_builtins(msgspec.convert(dict(options), Options)).values())

    def check(self, history: pa.Table, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run: what clients were answered, and of which leaders nodes heard.

        Raises:
            UsageError: an option is wrong.
            HistoryFormatError: an answer is none of its op.
        """
        try:
            wanted = msgspec.convert(dict(options), Options)
        except msgspec.ValidationError as error:
            fields = ", ".join(Options.__struct_fields__)
            raise UsageError(f"checker projections: {error}; it takes {fields}.") from None
        answers = list(_answers(history, wanted))
        unsure = _unsure(history, wanted)
        early = _early(answers, wanted, _lives(telemetry), unsure)
        found = [*_wrong(answers, wanted), *_negatives(answers, wanted), *early]
        figures = {f: sum(answer.f == name for answer in answers) for f, name in msgspec.to_builtins(wanted).items()}
        if found:
            return self._violation(history, found, figures)
        missing = [name for f, name in msgspec.to_builtins(wanted).items() if not figures[f]]
        if missing:
            sentence = f"Unknown: no {missing[0]} was answered, so that nothing is known of what it shows."
            reason = Reason(Code.NO_OCCASION, sentence)
            return Verdict(
                checker=self.name, valid="unknown", sentence=sentence, inconclusive=(reason,), figures=figures
            )
        sentence = (
            f"{counted(figures['look_up'], 'look-up')} denied nothing that their nodes knew, "
            f"{counted(figures['come_and_go'], 'record')} came and went, and {counted(figures['compare'], 'time')} a "
            "node's table was what its tree holds."
        )
        return Verdict(checker=self.name, valid="true", algorithm="scan", sentence=sentence, figures=figures)

    def _violation(
        self, history: pa.Table, found: list[tuple[str, str, tuple[int, ...]]], figures: dict[str, Any]
    ) -> Verdict:
        findings = [by_key.Finding(*each) for each in found]
        return by_key.violated(self.name, history, findings, figures)


def _answers(history: pa.Table, wanted: Options) -> Iterator[_Answer]:
    calls = client_calls(history)
    ok = calls.ended("ok")
    shapes = {wanted.come_and_go: tuple[Any, Any], wanted.compare: list[Any]}
    for invoke, complete in zip(calls.invoke[ok].tolist(), calls.complete[ok].tolist(), strict=True):
        f = cell(history, "f", invoke)
        if f in shapes:
            shaped(history, complete, shapes[f])
        yield _Answer(
            invoke,
            complete,
            cell(history, "time", invoke),
            cell(history, "term", complete),
            f,
            cell(history, "key", invoke),
            cell(history, "node", complete) or _UNKNOWN,
            cell(history, "value", invoke),
            cell(history, "value", complete),
        )


def _unsure(history: pa.Table, wanted: Options) -> dict[str | None, set[str]]:
    """By key the values of writes of unknown outcome: each may have been written at any time after it was asked for."""
    calls = client_calls(history)
    found: dict[str | None, set[str]] = {}
    rows = calls.invoke[calls.are(wanted.write) & ~calls.ended("ok") & ~calls.ended("fail")]
    for row in rows.tolist():
        found.setdefault(cell(history, "key", row), set()).add(canonical_json(cell(history, "value", row)))
    return found


def _wrong(answers: list[_Answer], wanted: Options) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    for answer in answers:
        if answer.f == wanted.come_and_go and answer.result != [answer.value, None]:
            then, after = answer.result
            if then != answer.value:
                said = f"{answer.node} had {then!r} of a key of which only {answer.value} had been put."
                yield "wrong-record", f"Wrong record: {said}", (answer.invoke, answer.complete)
            else:
                said = f"{answer.node} had {after!r} of a key whose node had gone with what kept it."
                yield "kept-record", f"Kept record: {said}", (answer.invoke, answer.complete)
        elif answer.f == wanted.compare and answer.result:
            keys = ", ".join(map(str, answer.result[:5]))
            said = f"at rest the table of {answer.node} was not what its tree holds, of the keys {keys}."
            yield "differs", f"Differs: {said}", (answer.complete,)


def _negatives(answers: list[_Answer], wanted: Options) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    knew: dict[tuple[str, str | None], _Answer] = {}
    for answer in sorted(answers, key=lambda answer: answer.complete):
        if answer.node == _UNKNOWN:
            continue
        shows = answer.f == wanted.write or (answer.f == wanted.look_up and answer.result is not None)
        if shows:
            knew.setdefault((answer.node, answer.key), answer)
    for answer in answers:
        before = knew.get((answer.node, answer.key))
        if answer.f != wanted.look_up or answer.result is not None or before is None:
            continue
        if before.complete < answer.invoke:
            said = (
                f"{answer.node} answered that there is no record of key {answer.key!r}, of which it had known one "
                "before, and none is ever removed."
            )
            yield "wrong-negative", f"Wrong negative: {said}", (before.complete, answer.invoke, answer.complete)


def _lives(telemetry: pa.Table) -> _Lives:
    begun: dict[tuple[str, str | None], list[_Life]] = {}
    for row in rows(telemetry):
        of_member = begun.setdefault((row.node, row.group), [])
        if row.event in ("start", DELETED):
            of_member.append(_Life(row.time, is_there=row.event == "start"))
        elif row.event == "role" and row.leader is not None:
            if not of_member:
                of_member.append(_Life(row.time, is_there=True))  # it does not say when that began
            if of_member[-1].term is None:
                of_member[-1].term = row.term
    lives: _Lives = {}
    for (node, _), of_member in begun.items():
        lives.setdefault(node, []).append(sorted(of_member, key=_begin_ns))
    return lives


def _begin_ns(life: _Life) -> int:
    return life.begin_ns


def _leaders_term(lives: _Lives, answer: _Answer) -> int | None:
    """The lowest term of the first leaders of which a node heard, in its last lives that began before a request came.

    None if it heard of none in one of its groups.
    """
    terms: list[int | None] = []
    for of_member in lives.get(answer.node, []):
        at = bisect_left(of_member, answer.time, key=_begin_ns)
        if at and of_member[at - 1].is_there:
            terms.append(of_member[at - 1].term)
    known = [term for term in terms if term is not None]
    return min(known) if known and len(known) == len(terms) else None


class _Writes:
    """The acknowledged writes of one key: when each value was written last, and by term which came when."""

    def __init__(self) -> None:
        self.ended: dict[str, int] = {}
        self._of_term: dict[int, list[_Answer]] = {}
        self._latest: dict[int, list[_Answer]] = {}

    def add(self, write: _Answer) -> None:
        """Add one, in the order of completions."""
        self.ended[canonical_json(write.value)] = write.complete
        if write.term is not None:
            self._of_term.setdefault(write.term, []).append(write)
            latest = self._latest.setdefault(write.term, [])
            latest.append(max([write, *latest[-1:]], key=_invoke))

    def between(self, first: int, second: int, term: int) -> _Answer | None:
        """A write of an earlier term that was asked for after the first row, and acknowledged before the second one."""
        for earlier in sorted(each for each in self._of_term if each < term):
            at = bisect_left(self._of_term[earlier], second, key=_complete)
            if at and self._latest[earlier][at - 1].invoke > first:
                return self._latest[earlier][at - 1]
        return None


def _invoke(answer: _Answer) -> int:
    return answer.invoke


def _complete(answer: _Answer) -> int:
    return answer.complete


def _early(
    answers: list[_Answer], wanted: Options, lives: _Lives, unsure: Mapping[str | None, Collection[str]]
) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    writes: dict[str | None, _Writes] = {}
    for answer in sorted(answers, key=_complete):
        if answer.f == wanted.write:
            writes.setdefault(answer.key, _Writes()).add(answer)
    for answer in answers:
        term = _leaders_term(lives, answer) if answer.f == wanted.look_up else None
        of_key = writes.get(answer.key)
        if term is None or of_key is None:
            continue
        # Of a write that was not acknowledged it is not known when it took place; of equal ones the last one counts.
        shown = canonical_json(answer.result)
        ended = -1 if answer.result is None else of_key.ended.get(shown)
        if ended is None or shown in unsure.get(answer.key, ()):
            continue
        write = of_key.between(ended, answer.invoke, term)
        if write is not None:
            has = "no record" if answer.result is None else f"the record {answer.result!r}"
            said = (
                f"{answer.node} answered {has} of key {answer.key!r} after {write.value!r} had been acknowledged in "
                f"term {write.term}. The first leader of which it heard was of term {term}: it has to apply all that "
                "was acknowledged in earlier terms before it answers."
            )
            yield "caught-up-early", f"Caught up early: {said}", (write.complete, answer.invoke, answer.complete)
