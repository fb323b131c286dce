"""Entities move from one store to another: is none lost, does none return, and does one store at a time answer? O(n^2).

    lost          an entity was there, nothing can have removed it since, and an answer says that it is not
    returned      an entity was not there, nothing can have made it since, and an answer says that it is
    two-stores    the first store answered after the second one had, and no rollback can have come between
    went-back     the first store answered, or a rollback was acknowledged, after the second store had taken a change
    unasked       the second store answered, and no migration can have begun before; or a rollback was acknowledged, and
                  no migration can have taken effect since

What is judged are pairs of answers whose order is certain, since the first came before the second was asked for. An op
of unknown outcome may take effect at any time after its invocation. What belongs to an entity (to a virtual host, to an
end of bindings, to a user) may have been removed with it.

A `declare-entity` that is ok says that its entity is there; a `delete-entity` that it is not, and its answer whether it
was before; a `look-at-entities` both of all entities (document S000; M2K-4 and M2K-5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.calls import OPEN, cell, client_calls
from splitbrain.results.errors import UsageError
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

DECLARE: Final = "declare-entity"
DELETE: Final = "delete-entity"
LOOK: Final = "look-at-entities"

FIRST: Final = "tables"
SECOND: Final = "tree"
NEVER: Final = 2**62

Entity: TypeAlias = tuple[Any, ...]
Anomaly: TypeAlias = Literal["lost", "returned", "two-stores", "went-back", "unasked"]


class Call(NamedTuple):
    """An op of a client.

    Attributes:
        f: its function.
        invoke: row of its invocation.
        complete: row of its completion.
        until: the row up to which it may take effect: `NEVER` ends for one of unknown outcome.
        how: ok, fail or info.
        entity: that it is about; () for others.
        value: what was answered.
    """

    f: str
    invoke: int
    complete: int
    until: int
    how: str
    entity: Entity
    value: Any


class Fact(NamedTuple):
    """An answer says, of some moment of its op, whether an entity is there."""

    call: Call
    is_there: bool
    before: bool = False
    """Whether that is what a `delete-entity` found, and ended: it says nothing of what is after it."""


class MigrationChecker(OfOneRun):
    """Judges `declare-entity`, `delete-entity`, `look-at-entities`, `migrate` and `roll-back`. No options."""

    name = "migration"
    partition: Partition = "run"

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run.

        Raises:
            UsageError: an option is given.
        """
        if options:
            raise UsageError(f"checker migration takes no options, not {', '.join(sorted(options))}.")
        calls = _calls(history)
        findings = [*of_stores(calls), *of_entities(calls)]
        figures = _figures(calls)
        if findings:
            findings.sort(key=lambda finding: max(finding.rows))
            return by_key.violated(self.name, history, findings, figures, "pairs of answers")
        missing = _missing(calls, figures)
        if missing is not None:
            reason = Reason(Code.NOT_EXERCISED, missing)
            return Verdict(
                checker=self.name, valid="unknown", sentence=missing, inconclusive=(reason,), figures=figures
            )
        sentence = (
            f"The entities were moved, and of {counted(figures['first_store'], 'answer')} of the first store and "
            f"{counted(figures['second_store'], 'answer')} of the second none lacks what was acknowledged, or shows "
            "what was deleted."
        )
        return Verdict(
            checker=self.name, valid="true", algorithm="pairs of answers", sentence=sentence, figures=figures
        )


def _calls(history: pa.Table) -> list[Call]:
    found: list[Call] = []
    pairs = client_calls(history)
    for invoke, complete in zip(pairs.invoke.tolist(), pairs.complete.tolist(), strict=True):
        how = "info" if complete == OPEN else str(cell(history, "type", complete))
        f = str(cell(history, "f", invoke))
        asked = cell(history, "value", invoke)
        entity = tuple(asked) if f in (DECLARE, DELETE) else ()
        value = None if complete == OPEN else cell(history, "value", complete)
        until = NEVER if how == "info" else complete
        found.append(Call(f, invoke, NEVER if complete == OPEN else complete, until, how, entity, value))
    return found


def _figures(calls: Sequence[Call]) -> dict[str, int]:
    ok = [call for call in calls if call.how == "ok"]
    stores = [_store(call) for call in ok]
    return {
        "first_store": stores.count(FIRST),
        "second_store": stores.count(SECOND),
        "migrations": sum(call.f == "migrate" for call in ok),
        "rollbacks": sum(call.f == "roll-back" for call in ok),
        "rollbacks_refused": sum(call.f == "roll-back" and call.how == "fail" for call in calls),
        "looks": sum(call.f == LOOK for call in ok),
    }


def _missing(calls: Sequence[Call], figures: Mapping[str, int]) -> str | None:
    """What the run did not show, if nothing is wrong."""
    if not any(call.f == "migrate" for call in calls):
        return "It was not shown that entities can be moved: no migration was begun."
    if not figures["migrations"]:
        return "It was not shown that entities can be moved: no migration came to its end."
    if not figures["first_store"]:
        return "It was not shown what becomes of entities that are moved: the first store gave no answer."
    if not figures["second_store"]:
        return "It was not shown what became of the entities: the second store gave no answer."
    return None


def _store(call: Call) -> str | None:
    return call.value.get("store") if isinstance(call.value, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


# --- stores -------------------------------------------------------------------------------------------------------


def of_stores(calls: Sequence[Call]) -> Iterator[Finding]:
    """Answers of a store that cannot have been in force; the first one of each kind."""
    answered = [call for call in calls if call.how == "ok" and _store(call) is not None]
    second = [call for call in answered if _store(call) == SECOND]
    back = [call for call in calls if call.f == "roll-back" and call.how != "fail"]
    changed = min((call for call in second if _changes(call)), key=lambda call: call.complete, default=None)
    went = [call for call in back if call.how == "ok"] + [call for call in answered if _store(call) == FIRST]
    for call in sorted(went, key=lambda call: call.complete):
        if changed is not None and changed.complete < call.invoke:
            what = "a rollback was acknowledged" if call.f == "roll-back" else "the tables answered"
            said = f"Went back: {what} after the tree had taken a change, which they lack."
            yield Finding("went-back", said, (changed.complete, call.invoke, call.complete))
            break
    for call in (call for call in answered if _store(call) == FIRST):
        before = next((each for each in second if each.complete < call.invoke and not _between(back, each, call)), None)
        if before is not None:
            said = "Two stores: the tables answered after the tree had, and no rollback can have come between."
            yield Finding("two-stores", said, (before.complete, call.invoke, call.complete))
            break
    begun = min((call.invoke for call in calls if call.f == "migrate" and call.how != "fail"), default=NEVER)
    begun = min([begun, *(call.invoke for call in calls if call.f == "migrate")])
    early = next((call for call in second if call.complete < begun), None)
    if early is not None:
        said = "Unasked: the tree answered before any migration was begun."
        yield Finding("unasked", said, (early.invoke, early.complete))
        return
    moves = [call for call in calls if call.f == "migrate"]
    for ended in (call for call in back if call.how == "ok"):
        after = next(
            (call for call in second if ended.complete < call.invoke and not _between(moves, ended, call)), None
        )
        if after is not None:
            said = "Unasked: the tree answered after a rollback, and no migration can have taken effect since."
            yield Finding("unasked", said, (ended.complete, after.invoke, after.complete))
            break


def _changes(call: Call) -> bool:
    return call.f == DECLARE or (call.f == DELETE and bool(call.value.get("was_there")))


def _between(some: Sequence[Call], first: Call, second: Call) -> bool:
    """Whether one of some calls may have taken effect between the answers to two others."""
    return any(each.invoke < second.complete and each.until > first.invoke for each in some)


# --- entities -----------------------------------------------------------------------------------------------------


def of_entities(calls: Sequence[Call]) -> Iterator[Finding]:
    """Entities that are lost or return; the first one of each."""
    looks = [call for call in calls if call.f == LOOK and call.how == "ok"]
    seen = [frozenset(tuple(entity) for entity in look.value["entities"]) for look in looks]
    named = dict.fromkeys(call.entity for call in calls if call.entity)
    for entity in named:
        shown = (Fact(look, entity in there) for look, there in zip(looks, seen, strict=True))
        facts = sorted([*_facts(calls, entity), *shown], key=lambda fact: fact.call.complete)
        makes = [call for call in calls if call.f == DECLARE and call.entity == entity and call.how != "fail"]
        removes = [call for call in calls if _may_remove(call) and removes_too(call.entity, entity)]
        found = _contradicted(entity, facts, makes, removes)
        if found is not None:
            yield found


def _facts(calls: Sequence[Call], entity: Entity) -> Iterator[Fact]:
    for call in calls:
        if call.entity != entity or call.how != "ok":
            continue
        if call.f == DECLARE:
            yield Fact(call, True)
        else:
            yield Fact(call, bool(call.value["was_there"]), before=True)
            yield Fact(call, False)


def _may_remove(call: Call) -> bool:
    return call.f == DELETE and (call.how == "info" or (call.how == "ok" and bool(call.value["was_there"])))


def _contradicted(
    entity: Entity, facts: Sequence[Fact], makes: Sequence[Call], removes: Sequence[Call]
) -> Finding | None:
    """The first answer that cannot be right after an earlier one."""
    for later in facts:
        if later.call.f == DECLARE or (later.call.f == DELETE and not later.before):
            continue  # that it is there then, or not, is its own doing
        if later.is_there and not _between_start(makes, later):
            return _finding(entity, None, later)
        changes = makes if later.is_there else removes
        for earlier in facts:
            if earlier.before or earlier.is_there == later.is_there or earlier.call.complete >= later.call.invoke:
                continue
            others = [call for call in changes if call is not later.call]
            if not _between(others, earlier.call, later.call):
                return _finding(entity, earlier, later)
    return None


def _between_start(makes: Sequence[Call], later: Fact) -> bool:
    return any(call.invoke < later.call.complete for call in makes)


def _finding(entity: Entity, earlier: Fact | None, later: Fact) -> Finding:
    name = " ".join(map(str, entity))
    store = _store(later.call)
    rows = (later.call.invoke, later.call.complete)
    if earlier is None:
        said = f"Returned: the {store} show {name}, and nothing can have made it."
        return Finding("returned", said, rows)
    was = f"by an answer of the {_store(earlier.call)}"
    if later.is_there:
        said = f"Returned: {name} was not there, {was}, nothing can have made it since, and the {store} show it."
        return Finding("returned", said, (earlier.call.complete, *rows))
    said = f"Lost: {name} was there, {was}, nothing can have removed it since, and an answer of the {store} lacks it."
    return Finding("lost", said, (earlier.call.complete, *rows))


def removes_too(deleted: Entity, entity: Entity) -> bool:
    """Whether what is deleted takes an entity with it, or is it."""
    if deleted == entity:
        return True
    match deleted, entity:
        case ("vhost", v), (kind, w, *_):
            return kind not in ("vhost", "user") and v == w
        case ("user", u), ("permission", _, w):
            return u == w
        case ("exchange", v, x, *_), ("binding", w, source, kind, end, *_):
            return v == w and (x == source or (kind == "exchange" and x == end))
        case ("queue", v, q), ("binding", w, _, kind, end, *_):
            return v == w and kind == "queue" and q == end
        case _:
            return False
