"""Virtual hosts, users, exchanges, queues and bindings: nothing dangles, nothing is lost, and routes are as bound.

    dangling    one consistent read shows an entity without what it needs: a binding without one of its ends, ...
    projection  a member's tables hold other entities than its tree did at the same moment
    route       they lead a message elsewhere than the bindings of that tree do
    lost        a declaration was acknowledged, nothing can have removed the entity, and a read does not show it
    undead      an entity was removed, nothing can have made it again, and a read shows it
    poisoned    a declaration was refused although all that it needs was there, or as there were one that differs
    left-over   an exchange that goes with its last binding is shown without one: it had one, and was not made anew
    locked      a queue was refused as exclusive to a connection, although all connections that had it had ended
    stranded    the same, where it is unknown which connections had it: of all that may have, for long, with all healed
    vanished    a queue of a connection is not there, although that is open still: its node said so over it

The first three are seen in one answer each. Of the others, what calls of unknown outcome may have done is given them
(`splitbrain.checkers.topology.timelines`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding
from splitbrain.checkers.topology import shapes
from splitbrain.checkers.topology.ops import CLAIM, DISCONNECT, LEAVE, LOOK, MAKES, OWN, PROJECT, REMOVES, Answered
from splitbrain.checkers.topology.stranded import stranded
from splitbrain.checkers.topology.structure import (
    Entity,
    Id,
    all_needs,
    dangling,
    goes_with_its_last_binding,
    id_of,
    needs,
    routes_of,
    source_of,
    words_for,
)
from splitbrain.checkers.topology.timelines import NEVER, Call, holds
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.calls import OPEN, Ints, cell, client_calls, ints, is_equal
from splitbrain.results.errors import UsageError
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

ENOUGH: Final = 3
"""So many answers of `project` must show something, all if there are fewer."""

_JUDGE: Final = by_key.Judge("topology", "certain intervals")


class TopologyChecker(OfOneRun):
    """Judges `declare`, `bind`, `delete` and `unbind` of entities, `look` (all at one moment) and `project`.

    `claim` of `[vhost, queue]` makes a queue of the connection whose name it answers; `disconnect` ends it, and answers
    its name. A connection may end, too, at any time after the last op of its process that was ok, before the first one
    that was not: nothing else shows that it is open. `own` answers `[owner, queues]`, where the queues, each `[vhost,
    queue]`, are those of the connection that answers, of which `owner` is the name; or None where that is unknown.

    The last answers `{"tree": entities, "tables": entities, "routes": [[v, x, key, queues], ...]}` of one member and
    one moment, or always None if the system cannot. Option `again`: entities that had to be declared once more, when
    all removals had begun; where no such declaration of one was acknowledged the run is inconclusive.
    """

    name = "topology"
    partition: Partition = "run"

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        return (*MAKES, *REMOVES, CLAIM, DISCONNECT, OWN, LOOK, PROJECT)

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run.

        Raises:
            UsageError: an option is unknown, or wrong.
            HistoryFormatError: a value is none of its op.
        """
        if unknown := sorted(set(options) - {"again"}):
            raise UsageError(f"checker topology takes the option again, not {', '.join(unknown)}.")
        again = shapes.entities(options.get("again", ()))
        run = _Run(history)
        looked = [op for op in run.ops if _is_shown(op)]
        saw_bindings = sum(any(found[0] == "binding" for found in _entities(op)) for op in looked)
        figures = {
            "looks": sum(op.f == LOOK for op in looked),
            "projections": sum(op.f == PROJECT for op in looked),
            "saw_projected": sum(op.f == PROJECT and bool(op.value["tree"]) for op in looked),
            "has_projections": int(not any(op.f == PROJECT and op.type == "ok" and op.value is None for op in run.ops)),
            "saw_bindings": saw_bindings,
            "entities": len(run.made),
            "saw_owned": sum(op.type == "ok" and op.f == OWN and bool(op.value and op.value[1]) for op in run.ops),
            "removed": sum(op.type == "ok" and op.f in REMOVES for op in run.ops),
        }
        findings = sorted(run.findings(), key=lambda finding: max(finding.rows))
        verdict = _JUDGE.key(None, history, findings, _praise(figures), figures, exercised=_is_exercised(figures))
        if missing := run.not_again([id_of(entity) for entity in again]):
            sentence = (
                f"It was not shown that every name can be declared again: no declaration of {words_for(missing[0])} at "
                f"the end was acknowledged ({len(missing)} in all)."
            )
            reasons = (*verdict.inconclusive, Reason(Code.NOT_EXERCISED, sentence))
            verdict = msgspec.structs.replace(verdict, inconclusive=reasons)
        return verdict


def _is_shown(op: Answered) -> bool:
    """Whether it shows entities."""
    return op.type == "ok" and (op.f == LOOK or (op.f == PROJECT and op.value is not None))


def _is_exercised(figures: Mapping[str, int]) -> bool:
    if not figures["has_projections"]:
        return bool(figures["saw_bindings"])
    few = min(ENOUGH, figures["projections"])
    return bool(figures["saw_bindings"] and figures["projections"] and figures["saw_projected"] >= few)


def _praise(figures: Mapping[str, int]) -> str:
    if not _is_exercised(figures):
        return "No answer showed a binding, or none what a member's projections hold."
    if not figures["has_projections"]:
        return (
            f"{counted(figures['looks'], 'read')} of all entities show each with what it needs, and nothing that was "
            "removed. The system does not show what its nodes look into on hot paths."
        )
    return (
        f"{counted(figures['looks'] + figures['projections'], 'read')} of all entities show each with what it needs, "
        f"and nothing that was removed; in {figures['projections']} of them projections and routes agree with the tree."
    )


def _entities(op: Answered) -> Sequence[Entity]:
    return op.value if op.f == LOOK else op.value["tree"]


def _leaves(history: pa.Table) -> list[Call]:
    """Members that left the cluster: queues that lived there may go at any time from then on."""
    rows = np.flatnonzero((ints(history, "process") < 0) & is_equal(history, "f", LEAVE))
    return [Call(int(row), NEVER) for row in rows[:1]]


def _by_process(ops: Iterable[Answered]) -> Iterable[Sequence[Answered]]:
    """The ops of each process, in their order."""
    found: dict[int, list[Answered]] = {}
    for op in ops:
        found.setdefault(op.process, []).append(op)
    return found.values()


def _last_ok_of_connections(ops: Sequence[Answered]) -> list[Answered]:
    """For each op of a process the last one that was ok on its connection, which ends with an op that is not ok."""
    found: list[Answered] = []
    for op in reversed(ops):
        found.append(found[-1] if found and found[-1].type == op.type == "ok" else op)
    return found[::-1]


def _call(op: Answered) -> Call:
    return Call(op.invoke, op.complete if op.type == "ok" else NEVER)


class _Run:
    """The ops of a run, in rows of its history."""

    def __init__(self, history: pa.Table) -> None:
        self.table = history
        calls = client_calls(history)
        rows = zip(calls.invoke.tolist(), calls.complete.tolist(), strict=True)
        self.ops = [self._op(invoke, complete) for invoke, complete in rows]
        self.made: dict[Id, list[Call]] = {}
        self._removed: dict[Id, list[Call]] = {}
        self._may_have_ended: dict[Id, list[Call]] = {}
        self._passing: dict[Id, None] = {}
        self._ends: dict[Id, dict[Id, None]] = {}
        self._left = _leaves(history)
        for op in self.ops:
            if op.type != "fail" and op.f in (*MAKES, *REMOVES):
                calls_of = self.made if op.f in MAKES else self._removed
                calls_of.setdefault(id_of(op.asked), []).append(_call(op))
                if goes_with_its_last_binding(op.asked):
                    self._passing[id_of(op.asked)] = None
        for made in self.made:
            if made[0] == "binding" and made[3] == "exchange" and ("exchange", made[1], made[4]) in self._passing:
                self._ends.setdefault(source_of(made), {})["exchange", made[1], made[4]] = None
        self._claims()

    def _claims(self) -> None:
        """Queues of connections: made by claims, removed when the connection is ended, or may have been."""
        ended: dict[str, Call] = {}
        for op in self.ops:
            if op.f == DISCONNECT and op.type == "ok" and op.value is not None:
                ended[op.value] = _call(op)
        for process in _by_process(self.ops):
            last_ok = _last_ok_of_connections(process)
            for op, last in zip(process, last_ok, strict=True):
                if op.f != CLAIM or op.type != "ok":
                    continue
                queue = ("exclusive", *op.asked, op.value)
                self.made.setdefault(queue, []).append(_call(op))
                self._may_have_ended.setdefault(queue, []).append(Call(last.invoke, NEVER))
                if op.value in ended:
                    self._removed.setdefault(queue, []).append(ended[op.value])

    def _op(self, invoke: int, complete: int) -> Answered:
        f = str(cell(self.table, "f", invoke))
        asked = shapes.asked(self.table, f, invoke)
        process = self.table["process"][invoke].as_py()
        if complete == OPEN:
            return Answered(f, invoke, NEVER, "info", asked, None, "", process)
        how = str(cell(self.table, "type", complete))
        value = shapes.answered(self.table, f, complete) if how == "ok" else None
        error = cell(self.table, "error", complete) or ""
        return Answered(f, invoke, complete, how, asked, value, error, process)

    def findings(self) -> Iterable[Finding]:
        """All anomalies."""
        for op in self.ops:
            if _is_shown(op):
                yield from self._dangling(op)
            if _is_shown(op) and op.f == PROJECT:
                yield from self._disagreeing(op)
            if op.type == "fail" and op.f in MAKES:
                yield from self._poisoned(op)
            if op.type == "fail" and op.f == CLAIM:
                yield from self._locked(op)
            if op.type == "ok" and op.f == OWN and op.value is not None:
                yield from self._vanished(op)
        yield from self._left_over()
        yield from self._lost_and_undead()
        yield from stranded(self.table, self.ops)

    def not_again(self, entities: Iterable[Id]) -> list[Id]:
        """Those of these entities of which no declaration was acknowledged that began after all removals had."""
        removals_began = max((op.invoke for op in self.ops if op.f in REMOVES), default=-1)
        late = [op for op in self.ops if op.type == "ok" and op.f in MAKES and op.invoke > removals_began]
        again = {id_of(op.asked): None for op in late}
        return [entity for entity in entities if entity not in again]

    # --- what one answer shows ----------------------------------------------------------------------------------------

    def _dangling(self, op: Answered) -> Iterable[Finding]:
        for entity, need in dangling(_entities(op)):
            yield Finding(
                "dangling",
                f"Dangling: {self._answer(op)} showed {words_for(entity)}, but not {words_for(need)}, which it needs.",
                (op.complete,),
            )

    def _disagreeing(self, op: Answered) -> Iterable[Finding]:
        tree, tables = ({tuple(entity): None for entity in op.value[way]} for way in ("tree", "tables"))
        for entity in [*tree, *tables]:
            if entity not in tree or entity not in tables:
                where = "in the tree, but not in the projections" if entity in tree else "in the projections alone"
                yield Finding(
                    "projection",
                    f"Projections differ from the tree: {self._answer(op)} showed {words_for(id_of(entity))} {where}.",
                    (op.complete,),
                )
        routes = op.value["routes"]
        for found, right in zip(routes, routes_of(op.value["tree"], routes), strict=True):
            if found != right:
                v, x, key, queues = found
                yield Finding(
                    "route",
                    f"Wrong route: {self._answer(op)} led {key!r} through exchange {x!r} in vhost {v!r} to "
                    f"{_listed(queues)}; by the bindings in its tree it goes to {_listed(right[3])}.",
                    (op.complete,),
                )

    # --- what follows from several ------------------------------------------------------------------------------------

    def _poisoned(self, op: Answered) -> Iterable[Finding]:
        entity, code = id_of(op.asked), op.error.partition(":")[0]
        interval = np.array([op.invoke]), np.array([op.complete])
        if code == "precondition_failed" and not self._may_differ(op):
            why = "as if there were one that differs, which no client declared"
        elif code == "not_found" and all(bool(self._is_there(need, *interval)[0]) for need in needs(entity)):
            why = f"although {' and '.join(map(words_for, needs(entity)))} was there"
        else:
            return
        yield Finding(
            "poisoned",
            f"Poisoned: {words_for(entity)} was refused, {why}: {op.error} ({self._answer(op)}).",
            (op.invoke, op.complete),
        )

    def _may_differ(self, op: Answered) -> bool:
        """Whether a client may have declared the same entity otherwise: an exchange of another type."""
        entity = id_of(op.asked)
        return any(
            id_of(other.asked) == entity and other.asked != op.asked and other.invoke < op.complete
            for other in self.ops
            if other.f in MAKES and other.type != "fail"
        )

    def _locked(self, op: Answered) -> Iterable[Finding]:
        if op.error.partition(":")[0] != "resource_locked":
            return
        if any(other.f == CLAIM and other.type == "info" and other.asked == op.asked for other in self.ops):
            return  # a claim without an answer may have made the queue: its owner is unknown
        interval = np.array([op.invoke]), np.array([op.complete])
        queues = [made for made in self.made if made[0] == "exclusive" and list(made[1:3]) == list(op.asked)]
        begun = [queue for queue in queues if min(call.invoke for call in self.made[queue]) < op.complete]
        if all(bool(self._is_gone(queue, *interval)[0]) for queue in begun):
            v, q = op.asked
            sentence = (
                f"Locked: queue {q!r} in vhost {v!r} was refused as exclusive to another connection, although every "
                f"one that had it had ended ({self._answer(op)})."
            )
            yield Finding("locked", sentence, (op.invoke, op.complete))

    def _vanished(self, op: Answered) -> Iterable[Finding]:
        """The queues that the connection of this answer claimed, and has no more."""
        owner, there = op.value
        interval = np.array([op.invoke]), np.array([op.complete])
        for queue, claims in self.made.items():
            if queue[0] != "exclusive" or queue[3] != owner or list(queue[1:3]) in there:
                continue
            may_remove = [*self._removals(queue), *self._removed.get(("queue", *queue[1:3]), ()), *self._left]
            if holds(claims, may_remove, *interval)[0]:
                sentence = (
                    f"Vanished: {words_for(queue)} was claimed, no client deleted it, and the connection is still "
                    f"open: {self._answer(op)} came over it, but did not show the queue. Its consumers would wait for "
                    "ever."
                )
                claimed = max(claim.complete for claim in claims if claim.complete < op.invoke)
                yield Finding("vanished", sentence, (claimed, op.complete))

    def _left_over(self) -> Iterable[Finding]:
        """An exchange that had a binding keeps one until it goes; then it is there again only if it is made anew."""
        looks = [op for op in self.ops if op.type == "ok" and op.f == LOOK]
        bound: dict[Id, list[Answered]] = {exchange: [] for exchange in self._passing}
        for op in self.ops:
            if op.f == "bind" and op.type == "ok" and source_of(op.asked) in bound:
                bound[source_of(op.asked)].append(op)
        for look in looks:
            sources = {source_of(entity): None for entity in look.value if entity[0] == "binding"}
            shown = [id_of(entity) for entity in look.value if id_of(entity) in bound]
            for exchange in (each for each in shown if each not in sources):
                before = [op for op in bound[exchange] if op.complete < look.invoke]
                if before and not self._may_be_new(exchange, before[-1].invoke, look.complete):
                    sentence = (
                        f"Left over: {self._answer(look)} showed {words_for(exchange)} without a binding. It goes with "
                        "its last one, had one, and was not declared since."
                    )
                    yield Finding("left-over", sentence, (before[-1].complete, look.complete))

    def _may_be_new(self, entity: Id, since: int, until: int) -> bool:
        """Whether a declaration may have taken effect between these rows."""
        return any(call.complete > since and call.invoke < until for call in self.made.get(entity, ()))

    def _lost_and_undead(self) -> Iterable[Finding]:
        looks = [op for op in self.ops if op.type == "ok" and op.f == LOOK]
        begin, end = (np.array([getattr(op, row) for op in looks], dtype=np.int64) for row in ("invoke", "complete"))
        shown = [{id_of(entity): None for entity in op.value} for op in looks]
        for entity in dict.fromkeys([*self.made, *(found for each in shown for found in each)]):
            seen = np.array([entity in each for each in shown], dtype=np.bool_)
            for rows, anomaly, sentence in (
                (self._is_there(entity, begin, end) & ~seen, "lost", "was acknowledged, nothing removed it, and"),
                (self._is_gone(entity, begin, end) & seen, "undead", "was removed, nothing made it again, but"),
            ):
                if rows.any():
                    op = looks[int(np.flatnonzero(rows)[0])]
                    verb = "did not show it" if anomaly == "lost" else "showed it"
                    said = f"{anomaly.capitalize()}: {words_for(entity)} {sentence} {self._answer(op)} {verb}."
                    yield Finding(anomaly, said, (op.invoke, op.complete))

    def _is_there(self, entity: Id, begin: Ints, end: Ints) -> Any:
        may_remove = [*self._removals(entity), *self._may_remove(entity)]
        return holds(self.made.get(entity, ()), may_remove, begin, end)

    def _is_gone(self, entity: Id, begin: Ints, end: Ints) -> Any:
        may_make = [*self.made.get(entity, ()), *self._unknown_claims(entity)]
        return holds(self._removals(entity), may_make, begin, end)

    def _removals(self, entity: Id) -> list[Call]:
        """The calls that may have removed it, or what it needs."""
        return [call for each in (entity, *all_needs(entity)) for call in self._removed.get(each, ())]

    def _unknown_claims(self, entity: Id) -> list[Call]:
        """The claims without an answer that may have made a queue of a connection."""
        if entity[0] != "exclusive":
            return []
        return [
            _call(op) for op in self.ops if op.f == CLAIM and op.type == "info" and list(op.asked) == list(entity[1:3])
        ]

    def _may_remove(self, entity: Id) -> list[Call]:
        """The calls by which it may have gone on its own: its connection ended, or it lost its last binding."""
        found = [*self._may_have_ended.get(entity, ()), *(self._left if entity[0] == "exclusive" else ())]
        for passing in self._bound_to([each for each in (entity, *all_needs(entity)) if each in self._passing]):
            _, v, x = passing
            for removed, calls in self._removed.items():
                is_end = removed[0] in ("queue", "exchange") and removed[1] == v
                if is_end or (removed[0] == "binding" and removed[1:3] == (v, x)):
                    found.extend(calls)
        return found

    def _bound_to(self, passing: Sequence[Id]) -> list[Id]:
        """These exchanges, and those to which they may have been bound: with one of them goes what leads to it."""
        found = dict.fromkeys(passing)
        pending = list(passing)
        while pending:
            source = pending.pop()
            for end in self._ends.get(source, ()):
                if end not in found:
                    found[end] = None
                    pending.append(end)
        return list(found)

    def _answer(self, op: Answered) -> str:
        return by_key.answer(self.table, op.complete)


def _listed(queues: Sequence[str]) -> str:
    return ", ".join(map(repr, queues)) if queues else "no queue"
