"""The checker `migration` beside a brute force, and what it says of small histories."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from splitbrain.checkers.migration import MigrationChecker, of_stores
from splitbrain.checkers.moved_entities import NEVER, Call, of_entities, removes_too
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op

Q = ("queue", "v0", "q0")


def call(f: str, invoke: int, complete: int, value: Any = None, how: str = "ok", entity: Any = ()) -> Call:
    return Call(f, invoke, complete, NEVER if how == "info" else complete, how, entity, value)


def drawn(rng: random.Random) -> list[Call]:
    """A few calls on one entity, which overlap, with answers that may be right or wrong."""
    count = rng.randint(2, 5)
    rows = list(range(2 * count))
    rng.shuffle(rows)
    calls: list[Call] = []
    for at in range(count):
        invoke, complete = sorted(rows[2 * at : 2 * at + 2])
        f = rng.choice(("declare-entity", "delete-entity", "look-at-entities"))
        how = "ok" if f == "look-at-entities" else rng.choice(("ok", "ok", "ok", "info"))
        there = rng.random() < 0.5
        value: Any = {"store": "tree"}
        if f == "delete-entity":
            value["was_there"] = there
        elif f == "look-at-entities":
            value["entities"] = [list(Q)] if there else []
        calls.append(
            call(f, invoke, complete, value if how == "ok" else None, how, () if f == "look-at-entities" else Q)
        )
    return calls


def orders(calls: Sequence[Call]) -> Iterator[tuple[Call, ...]]:
    """All orders in which calls may have taken effect; those of unknown outcome may have had none."""
    unknown = [each for each in calls if each.how == "info"]
    for count in range(len(unknown) + 1):
        for left_out in itertools.combinations(unknown, count):
            some = [each for each in calls if each not in left_out]
            for order in itertools.permutations(some):
                if all(not a.until < b.invoke for b, a in itertools.combinations(order, 2)):
                    yield order


def is_right(order: Sequence[Call]) -> bool:
    there = False
    for each in order:
        if each.how == "ok" and each.f == "delete-entity" and each.value["was_there"] != there:
            return False
        if each.f == "look-at-entities" and bool(each.value["entities"]) != there:
            return False
        there = {"declare-entity": True, "delete-entity": False}.get(each.f, there)
    return True


def test_what_it_calls_wrong_no_order_of_the_calls_explains() -> None:
    rng = random.Random(20)
    found = 0
    for _ in range(1_500):
        calls = drawn(rng)
        explained = any(map(is_right, orders(calls)))
        if list(of_entities(calls)):
            found += 1
            assert not explained, calls
    assert found > 300


def test_of_calls_that_follow_each_other_it_finds_every_wrong_answer() -> None:
    rng = random.Random(21)
    wrong = 0
    for _ in range(1_000):
        calls = sorted(drawn(rng), key=lambda each: each.invoke)
        calls = [each._replace(invoke=2 * at, complete=2 * at + 1, until=2 * at + 1) for at, each in enumerate(calls)]
        calls = [each for each in calls if each.how == "ok"]
        if not any(each.entity for each in calls):
            continue  # an entity that no call names is not judged
        explained = any(map(is_right, orders(calls)))
        wrong += not explained
        assert bool(list(of_entities(calls))) != explained, calls
    assert wrong > 300


@pytest.mark.parametrize(
    ("deleted", "entity", "goes"),
    [
        (Q, Q, True),
        (Q, ("binding", "v0", "x0", "queue", "q0", "a", 0), True),
        (Q, ("binding", "v0", "x0", "exchange", "q0", "a", 0), False),
        (("exchange", "v0", "x0", "direct"), ("binding", "v0", "x0", "queue", "q0", "a", 0), True),
        (("exchange", "v0", "x1", "direct"), ("binding", "v0", "x0", "exchange", "x1", "a", 0), True),
        (("vhost", "v0"), Q, True),
        (("vhost", "v1"), Q, False),
        (("vhost", "v0"), ("user", "v0"), False),
        (("user", "u0"), ("permission", "v0", "u0"), True),
    ],
)
def test_what_goes_with_what(deleted: Any, entity: Any, goes: bool) -> None:
    assert removes_too(deleted, entity) is goes


def declared(invoke: int, complete: int, store: str) -> Call:
    return call("declare-entity", invoke, complete, {"store": store}, entity=Q)


def test_one_store_at_a_time_answers() -> None:
    migrated = call("migrate", 0, 1)
    looked = call("look-at-entities", 2, 3, {"store": "tree", "entities": []})
    again = call("look-at-entities", 8, 9, {"store": "tables", "entities": []})
    assert [each.anomaly for each in of_stores([migrated, looked, again])] == ["two-stores"]
    back = call("roll-back", 4, 5)
    assert not list(of_stores([migrated, looked, back, again]))
    assert not list(of_stores([migrated, looked, call("roll-back", 4, 5, how="info"), again]))
    refused = call("roll-back", 4, 5, how="fail")
    assert [each.anomaly for each in of_stores([migrated, looked, refused, again])] == ["two-stores"]
    meanwhile = call("look-at-entities", 2, 9, {"store": "tables", "entities": []})
    assert not list(of_stores([migrated, looked, meanwhile]))


def test_there_is_no_way_back_after_a_change() -> None:
    calls = [call("migrate", 0, 1), declared(2, 3, "tree"), call("roll-back", 4, 5)]
    assert [each.anomaly for each in of_stores(calls)] == ["went-back"]
    assert not list(of_stores([calls[0], declared(2, 9, "tree"), calls[2]]))
    found = [each.anomaly for each in of_stores([calls[0], declared(2, 3, "tree"), declared(4, 5, "tables")])]
    assert found == ["went-back", "two-stores"]


def test_nothing_moves_unasked() -> None:
    assert [each.anomaly for each in of_stores([declared(2, 3, "tree"), call("migrate", 4, 5)])] == ["unasked"]


def test_what_was_rolled_back_moves_only_when_it_is_asked_for() -> None:
    migrated, back = call("migrate", 0, 1), call("roll-back", 4, 5)
    again = call("look-at-entities", 8, 9, {"store": "tree", "entities": []})
    assert [each.anomaly for each in of_stores([migrated, back, again])] == ["unasked"]
    assert not list(of_stores([migrated, back, call("migrate", 6, 7), again]))
    assert not list(of_stores([call("migrate", 0, 1, how="info"), back, again]))
    assert not list(of_stores([call("migrate", 0, 4), call("roll-back", 3, 5), again]))
    assert not list(of_stores([migrated, call("roll-back", 4, 5, how="info"), again]))
    meanwhile = call("look-at-entities", 4, 9, {"store": "tree", "entities": []})
    assert not list(of_stores([migrated, back, meanwhile]))


def judged(*done: tuple[str, Any, str, Any]) -> Verdict:
    rows: list[Op] = []
    for f, asked, how, value in done:
        for kind, of in (("invoke", asked), (how, value)):
            at = len(rows)
            rows.append(Op(index=at, time=at, process=0, type=kind, f=f, value=of, node="n1"))  # pyright: ignore[reportArgumentType]
    return MigrationChecker().check(to_table(rows), {})


BEFORE = ("declare-entity", list(Q), "ok", {"store": "tables"})
MOVED = ("migrate", None, "ok", None)


def test_verdicts_of_whole_histories() -> None:
    shown = ("look-at-entities", None, "ok", {"store": "tree", "entities": [list(Q)]})
    assert judged(BEFORE, MOVED, shown).valid == "true"
    lost = judged(BEFORE, MOVED, ("look-at-entities", None, "ok", {"store": "tree", "entities": []}))
    assert (lost.valid, lost.anomalies) == ("false", ("lost",))
    assert lost.sentence == (
        "Lost: queue v0 q0 was there, by an answer of the tables, nothing can have removed it since, and an answer of "
        "the tree lacks it."
    )


@pytest.mark.parametrize(
    ("done", "says"),
    [
        ((BEFORE,), "no migration was begun"),
        ((BEFORE, ("migrate", None, "fail", None)), "no migration came to its end"),
        ((MOVED, ("declare-entity", list(Q), "ok", {"store": "tree"})), "the first store gave no answer"),
        ((BEFORE, MOVED), "the second store gave no answer"),
    ],
)
def test_what_was_not_shown_is_said(done: Any, says: str) -> None:
    verdict = judged(*done)
    assert verdict.valid == "unknown"
    assert says in verdict.sentence
