"""Entities move between stores: is none lost or changed, does none return, and does one store at a time answer?

    lost          an entity was there, nothing can have removed it since, and an answer says that it is not
    returned      an entity was not there, nothing can have made it since, and an answer says that it is
    changed       an answer shows a value of an entity that it cannot have: no declaration of that value can have taken
                  effect since an answer that differs, or none has at all
    two-stores    the first store answered after the second one had, and no rollback can have come between
    went-back     the first store answered, or a rollback was acknowledged, after the second store had taken a change
    unasked       the second store answered, and no migration can have begun before; or a rollback was acknowledged, and
                  no migration can have taken effect since

What is judged are pairs of answers whose order is certain, since the first came before the second was asked for. An op
of unknown outcome may take effect at any time after its invocation. What belongs to an entity (to a virtual host, to an
end of bindings, to a user) may have been removed with it.

A `declare-entity` that is ok says that its entity is there, with its value; a `delete-entity` that it is not, and its
answer whether it was before; a `look-at-entities` all of that of all entities (document S000; M2K-4 and M2K-5). What
becomes of entities `splitbrain.checkers.moved_entities` judges, which store answers this module. O(n log n), and O(n)
more for each rollback.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, Literal, TypeAlias

import msgspec
import pyarrow as pa

from splitbrain.checkers import by_key
from splitbrain.checkers.by_key import Finding
from splitbrain.checkers.moved_entities import (
    DECLARE,
    DELETE,
    LOOK,
    NEVER,
    THERE,
    Call,
    Effects,
    of_entities,
    split,
    store_of,
)
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.calls import OPEN, cell, client_calls, shaped
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

FIRST: Final = "tables"
SECOND: Final = "tree"

Anomaly: TypeAlias = Literal["lost", "returned", "changed", "two-stores", "went-back", "unasked"]


class MigrationChecker(OfOneRun):
    """Judges `declare-entity`, `delete-entity`, `look-at-entities`, `migrate` and `roll-back`.

    Options: `way_back`, whether a run has to show a rollback, false by default.
    """

    name = "migration"
    partition: Partition = "run"

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The functions of the ops that are judged."""
        return (DECLARE, DELETE, LOOK, "migrate", "roll-back")

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run.

        Raises:
            UsageError: an option is unknown, or wrong.
            HistoryFormatError: a value is none of its op.
        """
        wants_way_back = _wants_way_back(options)
        calls = _calls(history)
        findings = [*of_stores(calls), *of_entities(calls)]
        figures = _figures(calls)
        if findings:
            findings.sort(key=lambda finding: max(finding.rows))
            return by_key.violated(self.name, history, findings, figures, "pairs of answers")
        missing = _missing(calls, figures, wants_way_back=wants_way_back)
        if missing is not None:
            reason = Reason(Code.NOT_EXERCISED, missing)
            return Verdict(
                checker=self.name, valid="unknown", sentence=missing, inconclusive=(reason,), figures=figures
            )
        back = f", {counted(figures['ways_back'], 'time')} back," if figures["ways_back"] else ","
        sentence = (
            f"The entities were moved{back} and of {counted(figures['first_store'], 'answer')} of the first store and "
            f"{counted(figures['second_store'], 'answer')} of the second none lacks what was acknowledged, or shows "
            "what was deleted, or another value."
        )
        return Verdict(
            checker=self.name, valid="true", algorithm="pairs of answers", sentence=sentence, figures=figures
        )


def _wants_way_back(options: Mapping[str, Any]) -> bool:
    unknown = sorted(set(options) - {"way_back"})
    if unknown:
        raise UsageError(f"checker migration has no option {', '.join(unknown)}, only way_back.")
    wants = options.get("way_back", False)
    if not isinstance(wants, bool):
        raise UsageError(f"checker migration: way_back must be true or false, not {wants!r}.")
    return wants


def _calls(history: pa.Table) -> list[Call]:
    found: list[Call] = []
    pairs = client_calls(history)
    for invoke, complete in zip(pairs.invoke.tolist(), pairs.complete.tolist(), strict=True):
        how = "info" if complete == OPEN else str(cell(history, "type", complete))
        f = str(cell(history, "f", invoke))
        entity, declares = ((), THERE)
        if f in (DECLARE, DELETE):
            entity, declares = split(_entity(history, invoke, shaped(history, invoke, list[Any])))
        value = None if complete == OPEN else _answer(history, complete, f, how)
        if f == "roll-back" and how == "ok" and isinstance(value, Mapping) and "refused" in value:
            how = "fail"  # as histories have it that are older
        until = NEVER if how == "info" else complete
        found.append(Call(f, invoke, NEVER if complete == OPEN else complete, until, how, entity, value, declares))
    return found


def _entity(history: pa.Table, row: int, entity: list[Any]) -> list[Any]:
    """An entity, if it is one.

    Raises:
        HistoryFormatError: it is not.
    """
    *names, last = entity or [[]]
    if any(isinstance(name, list | dict) for name in names) or isinstance(last, list):
        raise HistoryFormatError(
            "history",
            f"op {cell(history, 'index', row)}: an entity is a list of its kind, its names and its value, a map, where "
            f"it has one; not {entity!r:.80}.",
        )
    return entity


def _answer(history: pa.Table, row: int, f: str, how: str) -> Any:
    """What an op answered.

    Raises:
        HistoryFormatError: it is no answer of that function.
    """
    if how == "ok" and f == DELETE:
        shaped(history, row, _Deleted)
    elif how == "ok" and f == LOOK:
        for entity in shaped(history, row, _Looked).entities:
            _entity(history, row, entity)
    return cell(history, "value", row)


class _Deleted(msgspec.Struct, frozen=True):
    """What a deletion answers."""

    was_there: bool


class _Looked(msgspec.Struct, frozen=True):
    """What a look at entities answers."""

    entities: list[list[Any]]


def _figures(calls: Sequence[Call]) -> dict[str, int]:
    ok = [call for call in calls if call.how == "ok"]
    stores = [store_of(call) for call in ok]
    return {
        "first_store": stores.count(FIRST),
        "second_store": stores.count(SECOND),
        "migrations": sum(call.f == "migrate" for call in ok),
        "rollbacks": sum(call.f == "roll-back" for call in ok),
        "rollbacks_refused": sum(call.f == "roll-back" and call.how == "fail" for call in calls),
        "ways_back": _ways_back(ok),
        "looks": sum(call.f == LOOK for call in ok),
    }


def _ways_back(ok: Sequence[Call]) -> int:
    """How often the first store certainly answered again after the second one had: so often it was rolled back."""
    found, back_at, left_at = 0, -1, NEVER
    for call in sorted((call for call in ok if store_of(call) is not None), key=lambda call: call.complete):
        if store_of(call) == SECOND and call.invoke > back_at:
            left_at = min(left_at, call.complete)
        elif store_of(call) == FIRST and call.invoke > left_at:
            found, back_at, left_at = found + 1, call.complete, NEVER
    return found


def _missing(calls: Sequence[Call], figures: Mapping[str, int], *, wants_way_back: bool) -> str | None:
    """What the run did not show, if nothing is wrong."""
    if not any(call.f == "migrate" for call in calls):
        return "It was not shown that entities can be moved: no migration was begun."
    if not figures["migrations"]:
        return "It was not shown that entities can be moved: no migration came to its end."
    if not figures["first_store"]:
        return "It was not shown what becomes of entities that are moved: the first store gave no answer."
    if not figures["second_store"]:
        return "It was not shown what became of the entities: the second store gave no answer."
    if wants_way_back and not figures["ways_back"]:
        return "It was not shown that there is a way back: the first store gave no answer after the second one had."
    return None


# --- stores -------------------------------------------------------------------------------------------------------


def of_stores(calls: Sequence[Call]) -> Iterator[Finding]:
    """Answers of a store that cannot have been in force; the first one of each kind."""
    answered = [call for call in calls if call.how == "ok" and store_of(call) is not None]
    second = [call for call in answered if store_of(call) == SECOND]
    back = [call for call in calls if call.f == "roll-back" and call.how != "fail"]
    changed = min((call for call in second if _changes(call)), key=lambda call: call.complete, default=None)
    went = [call for call in back if call.how == "ok"] + [call for call in answered if store_of(call) == FIRST]
    for call in sorted(went, key=lambda call: call.complete):
        if changed is not None and changed.complete < call.invoke:
            what = "a rollback was acknowledged" if call.f == "roll-back" else "the tables answered"
            said = f"Went back: {what} after the tree had taken a change, which they lack."
            yield Finding("went-back", said, (changed.complete, call.invoke, call.complete))
            break
    rollbacks, latest = Effects(back), _Latest(second)
    for call in (call for call in answered if store_of(call) == FIRST):
        before = latest.before(call.invoke)
        if before is not None and not rollbacks.may_be_between(before.invoke, call.complete):
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


class _Latest:
    """Answers: which of those that came before a row was asked for last."""

    def __init__(self, calls: Sequence[Call]) -> None:
        found = sorted(calls, key=lambda call: call.complete)
        self._completes = [call.complete for call in found]
        self._latest = list(accumulate(found, lambda one, other: max(one, other, key=lambda call: call.invoke)))

    def before(self, row: int) -> Call | None:
        """The one that leaves least time for anything to come between; None if none was answered before the row."""
        at = bisect_left(self._completes, row)
        return self._latest[at - 1] if at else None


def _changes(call: Call) -> bool:
    return call.f == DECLARE or (call.f == DELETE and bool(call.value.get("was_there")))


def _between(some: Sequence[Call], first: Call, second: Call) -> bool:
    """Whether one of some calls may have taken effect between the answers to two others."""
    return any(each.invoke < second.complete and each.until > first.invoke for each in some)
