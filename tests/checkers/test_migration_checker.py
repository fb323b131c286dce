"""The checker `migration` beside a brute force, and what it says of small histories."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from time import process_time
from typing import Any

import pytest

from splitbrain.checkers.migration import MigrationChecker, _ways_back, of_stores  # pyright: ignore[reportPrivateUsage]
from splitbrain.checkers.moved_entities import NEVER, THERE, Call, Entity, of_entities, removes_too, split
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.reasons import Code

Q = ("queue", "v0", "q0")
P = ("policy", "v0", "p0")
ONE, OTHER = {"pattern": "^a", "priority": 1}, {"pattern": "", "priority": 1}

KINDS: dict[str, tuple[Entity, tuple[Any, ...]]] = {
    "of an old history": (Q, ({},)),
    "fixed": (Q, (ONE, OTHER)),
    "put": (P, (ONE, OTHER, {})),
}
"""The entity, and the values that it may have; {} is none: one that is there with any."""


def call(
    f: str, invoke: int, complete: int, value: Any = None, how: str = "ok", entity: Any = (), of: Any = None
) -> Call:
    declares = split([*entity, of])[1] if of else THERE
    return Call(f, invoke, complete, NEVER if how == "info" else complete, how, entity, value, declares)


def entities(entity: Entity, value: Any) -> list[Any]:
    """What a look shows; a value of None is that the entity is not there."""
    return [] if value is None else [[*entity, value] if value else list(entity)]


def drawn(rng: random.Random, entity: Entity, values: Sequence[Any]) -> list[Call]:
    """A few calls on one entity, which overlap, with answers that may be right or wrong."""
    count = rng.randint(2, 5)
    rows = list(range(2 * count))
    rng.shuffle(rows)
    calls: list[Call] = []
    for at in range(count):
        invoke, complete = sorted(rows[2 * at : 2 * at + 2])
        f = rng.choice(("declare-entity", "delete-entity", "look-at-entities"))
        how = "ok" if f == "look-at-entities" else rng.choice(("ok", "ok", "ok", "info"))
        value: Any = {"store": "tree"}
        if f == "delete-entity":
            value["was_there"] = rng.random() < 0.5
        elif f == "look-at-entities":
            value["entities"] = entities(entity, None if rng.random() < 0.5 else rng.choice(values))
        about = () if f == "look-at-entities" else entity
        of = rng.choice(values) if f == "declare-entity" else None
        calls.append(call(f, invoke, complete, value if how == "ok" else None, how, about, of))
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


def differ(one: str | None, other: str | None) -> bool:
    """Whether these are certainly two states; a declaration or a look without a value is of any."""
    return one != other and (None in (one, other) or THERE not in (one, other))


def is_right(order: Sequence[Call], *, fixed: bool) -> bool:
    """Whether an entity that is not there at first answers so; `fixed`: to declare another value is refused."""
    state: str | None = None
    for each in order:
        match each.f:
            case "declare-entity" if not (fixed and state and differ(state, each.declares)):
                state = each.declares
            case "declare-entity" if each.how == "ok":
                return False
            case "delete-entity":
                if each.how == "ok" and each.value["was_there"] != (state is not None):
                    return False
                state = None
            case "look-at-entities":
                shown = split(each.value["entities"][0])[1] if each.value["entities"] else None
                if differ(state, shown):
                    return False
                state = shown if state == THERE else state  # which value it was made with
            case _:
                pass
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_calls_wrong_no_order_of_the_calls_explains(kind: str) -> None:
    rng = random.Random(20)
    found: Counter[str] = Counter()
    for _ in range(1_500):
        calls = drawn(rng, *KINDS[kind])
        explained = any(is_right(order, fixed=kind == "fixed") for order in orders(calls))
        wrong = list(of_entities(calls))
        assert not (wrong and explained), calls
        found.update(each.anomaly for each in wrong)
    assert found.total() > 300
    assert (found["changed"] > 40) == (kind != "of an old history")


@pytest.mark.parametrize("kind", KINDS)
def test_of_calls_that_follow_each_other_it_finds_every_wrong_answer(kind: str) -> None:
    rng = random.Random(21)
    wrong = 0
    for _ in range(1_000):
        calls = sorted(drawn(rng, *KINDS[kind]), key=lambda each: each.invoke)
        calls = [each._replace(invoke=2 * at, complete=2 * at + 1, until=2 * at + 1) for at, each in enumerate(calls)]
        calls = [each for each in calls if each.how == "ok"]
        if not any(each.entity for each in calls):
            continue  # an entity that no call names is not judged
        explained = any(is_right(order, fixed=kind == "fixed") for order in orders(calls))
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
        (("user", "u0"), ("topic_permission", "v0", "u0", "x0"), True),
        (("user", "v0"), ("topic_permission", "v0", "u0", "x0"), False),
        (("exchange", "v0", "x0"), ("topic_permission", "v0", "u0", "x0"), True),
        (("exchange", "v1", "x0"), ("topic_permission", "v0", "u0", "x0"), False),
        (("vhost", "v0"), ("topic_permission", "v0", "u0", "x0"), True),
        (("vhost", "v0"), ("operator_policy", "v0", "p0"), True),
        (("vhost", "v0"), ("parameter", "v0", "shovel", "r0"), True),
        (("vhost", "r0"), ("global_parameter", "r0"), False),
        (("vhost", "m0"), ("maintenance", "m0"), False),
        (("binding", "v0", "x3", "queue", "q0", "a", 0), ("exchange", "v0", "x3"), True),
        (("queue", "v0", "q0"), ("topic_permission", "v0", "u0", "x3"), True),
        (("queue", "v1", "q0"), ("exchange", "v0", "x3"), False),
        (("queue", "v0", "q0"), ("exchange", "v0", "x0"), False),
        (("queue", "v0", "q0"), ("binding", "v0", "x0", "exchange", "x3", "a", 0), True),
        (("queue", "v0", "q0"), ("binding", "v0", "x3", "queue", "q1", "a", 0), False),
    ],
)
def test_what_goes_with_what(deleted: Any, entity: Any, goes: bool) -> None:
    """`x3` is the exchange that goes with its last binding."""
    assert removes_too(deleted, entity, {("v0", "x3")}) is goes


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


def judged(*done: tuple[str, Any, str, Any], **options: Any) -> Verdict:
    rows: list[Op] = []
    for f, asked, how, value in done:
        for kind, of in (("invoke", asked), (how, value)):
            at = len(rows)
            rows.append(Op(index=at, time=at, process=0, type=kind, f=f, value=of, node="n1"))  # pyright: ignore[reportArgumentType]
    return MigrationChecker().check(to_table(rows), options)


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


SHOWN: Sequence[Any] = [*P, ONE]
BLANK: Sequence[Any] = [*P, OTHER]
PUT = ("declare-entity", [*P, ONE], "ok", {"store": "tables"})
PUT_OTHER = ("declare-entity", [*P, OTHER], "ok", {"store": "tree"})


def look(*shown: Sequence[Any], store: str = "tree") -> tuple[str, Any, str, Any]:
    return ("look-at-entities", None, "ok", {"store": store, "entities": [list(each) for each in shown]})


A, B = '{"pattern":"^a","priority":1}', '{"pattern":"","priority":1}'
GONE = ("delete-entity", list(P), "ok", {"store": "tables", "was_there": True})


@pytest.mark.parametrize(
    ("done", "says"),
    [
        (
            (PUT, MOVED, look(BLANK)),
            f"policy v0 p0 was declared as {A} only, and an answer of the tree shows it as {B}.",
        ),
        (
            (PUT, MOVED, PUT_OTHER, look(SHOWN)),
            (
                f"policy v0 p0 was {B}, by an answer of the tree, nothing can have changed that since, "
                f"and an answer of the tree shows it as {A}."
            ),
        ),
        (
            (PUT, GONE, MOVED, PUT_OTHER, look(SHOWN)),
            (
                f"policy v0 p0 was not there, by an answer of the tables, since then it can have been declared as {B} "
                f"only, and an answer of the tree shows it as {A}."
            ),
        ),
        (
            (
                ("declare-entity", [*Q, ONE], "ok", {"store": "tables"}),
                MOVED,
                ("declare-entity", [*Q, OTHER], "ok", {"store": "tree"}),
            ),
            (
                f"queue v0 q0 was {A}, by an answer of the tables, nothing can have changed that since, "
                f"and an answer of the tree took a declaration of it as {B}."
            ),
        ),
    ],
)
def test_an_entity_with_another_value_is_named_with_both(done: Any, says: str) -> None:
    verdict = judged(*done)
    assert (verdict.valid, verdict.anomalies, verdict.sentence) == ("false", ("changed",), f"Changed: {says}")


@pytest.mark.parametrize(
    "done",
    [
        (PUT, MOVED, look(SHOWN)),
        (PUT, MOVED, PUT_OTHER, look(BLANK)),
        (PUT, ("declare-entity", [*P, OTHER], "info", None), MOVED, look(SHOWN), look(BLANK)),
        (("declare-entity", [*P, OTHER], "info", None), PUT, look(SHOWN, store="tables"), MOVED, look(BLANK)),
        (PUT, MOVED, look(P)),
        (("declare-entity", list(P), "ok", {"store": "tables"}), MOVED, look(SHOWN)),
    ],
)
def test_a_value_of_a_declaration_that_may_be_in_force_is_right(done: Any) -> None:
    """Also late, of one of unknown outcome; and where one side has no value, as in older histories."""
    assert judged(*done).valid == "true"


def test_a_declaration_that_was_refused_or_ended_before_a_newer_one_gives_no_value() -> None:
    refused = ("declare-entity", [*P, OTHER], "fail", None)
    assert judged(PUT, refused, MOVED, look(BLANK)).anomalies == ("changed",)
    late = ("declare-entity", [*P, OTHER], "info", None)
    assert judged(PUT, late, GONE, MOVED, look(SHOWN)).anomalies == ("changed",)


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


BACK = ("roll-back", None, "ok", None)
HERE = look([*P, ONE], store="tables")
THERE_SHOWN = look([*P, ONE])


@pytest.mark.parametrize(
    ("done", "count"),
    [
        ((PUT, MOVED, THERE_SHOWN), 0),
        ((PUT, BACK, HERE, MOVED, THERE_SHOWN), 0),
        ((PUT, MOVED, THERE_SHOWN, BACK), 0),
        ((PUT, MOVED, THERE_SHOWN, BACK, HERE), 1),
        ((PUT, MOVED, THERE_SHOWN, ("roll-back", None, "info", None), HERE), 1),
        ((PUT, MOVED, THERE_SHOWN, BACK, HERE, HERE, MOVED, THERE_SHOWN), 1),
        ((PUT, *2 * (MOVED, THERE_SHOWN, BACK, HERE)), 2),
    ],
)
def test_a_rollback_counts_once_the_first_store_has_answered_after_the_second(done: Any, count: int) -> None:
    """Also if its own answer is missing; and not by its own answer alone, which comes where nothing had moved, too."""
    assert judged(*done).figures["ways_back"] == count


@pytest.mark.parametrize("how", ["ok", "fail"])
def test_a_rollback_that_is_refused_is_none(how: str) -> None:
    """As an answer, or, in older histories, as an op that failed."""
    refused = ("roll-back", None, how, {"refused": "migration_refused: it has taken changes"} if how == "ok" else None)
    found = judged(PUT, MOVED, PUT_OTHER, refused, look(BLANK))
    assert found.valid == "true", found.sentence
    assert (found.figures["rollbacks"], found.figures["rollbacks_refused"]) == (0, 1)
    assert judged(PUT, MOVED, THERE_SHOWN, refused, HERE).anomalies == ("two-stores",)


def test_answers_of_which_the_order_is_not_certain_show_no_rollback() -> None:
    moved, meanwhile = call("look-at-entities", 1, 6, {"store": "tree"}), call("roll-back", 4, 5)
    after = call("look-at-entities", 3, 8, {"store": "tables"})
    assert _ways_back([moved, meanwhile, after]) == 0
    late = call("look-at-entities", 7, 8, {"store": "tables"})
    assert _ways_back([moved, meanwhile, late]) == 1
    slow = call("look-at-entities", 2, 10, {"store": "tree"})  # begun before the first store answered again
    assert _ways_back([moved, meanwhile, late, slow, call("look-at-entities", 11, 12, {"store": "tables"})]) == 1


def test_a_run_that_is_to_show_a_rollback_and_shows_none_is_inconclusive() -> None:
    done = (PUT, MOVED, THERE_SHOWN)
    assert judged(*done).valid == "true"
    found = judged(*done, way_back=True)
    assert (found.valid, [each.code for each in found.inconclusive]) == ("unknown", [Code.NOT_EXERCISED])
    assert "the first store gave no answer after the second one had" in found.sentence
    passed = judged(*done, BACK, HERE, MOVED, THERE_SHOWN, way_back=True)
    assert passed.valid == "true"
    assert passed.sentence.startswith("The entities were moved, 1 time back, and of ")


def test_what_is_wrong_is_wrong_without_a_rollback_too() -> None:
    assert judged(PUT, MOVED, look(), way_back=True).anomalies == ("lost",)


@pytest.mark.parametrize(("options", "says"), [({"back": 1}, "no option back"), ({"way_back": 1}, "true or false")])
def test_wrong_options_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        judged(BEFORE, **options)


NO_ENTITIES: list[tuple[str, Any, Any]] = [
    ("declare-entity", None, {"store": "tree"}),
    ("declare-entity", [], {"store": "tree"}),
    ("declare-entity", ["queue", ["v0"], "q0"], {"store": "tree"}),
    ("declare-entity", ["queue", {}, "q0"], {"store": "tree"}),
    ("delete-entity", 7, {"store": "tree", "was_there": True}),
    ("delete-entity", ["queue", "v0", "q0"], {"store": "tree"}),
    ("look-at-entities", None, None),
    ("look-at-entities", None, {"entities": [[]]}),
    ("look-at-entities", None, {"entities": ["queue"]}),
]


@pytest.mark.parametrize(("f", "asked", "answered"), NO_ENTITIES)
def test_a_value_that_is_none_of_its_op_is_refused(f: str, asked: Any, answered: Any) -> None:
    ops = [
        Op(index=0, time=0, process=0, type="invoke", f=f, value=asked),
        Op(index=1, time=1, process=0, type="ok", f=f, value=answered),
    ]
    with pytest.raises(HistoryFormatError, match=r"op [01]: "):
        MigrationChecker().check(to_table(ops), {})


def test_an_exchange_may_be_declared_without_a_word_of_when_it_goes() -> None:
    value = ["exchange", "v0", "x0", {"type": "direct"}]
    ops = [
        Op(index=0, time=0, process=0, type="invoke", f="declare-entity", value=value),
        Op(index=1, time=1, process=0, type="ok", f="declare-entity", value={"store": "tables"}),
    ]
    assert MigrationChecker().check(to_table(ops), {}).valid == "unknown"


def test_thousands_of_answers_of_both_stores_cost_little() -> None:
    def answer(number: int, store: str) -> Call:
        return Call("look-at-entities", 2 * number, 2 * number + 1, 2 * number + 1, "ok", (), {"store": store})

    half = 6000
    calls = [answer(number, "tables" if number < half else "tree") for number in range(2 * half)]
    calls.append(Call("migrate", 2 * half - 1, NEVER, NEVER, "info", (), None))
    began_s = process_time()
    assert not list(of_stores(calls))
    assert process_time() - began_s < 1
    calls.append(answer(2 * half, "tables"))
    assert [finding.anomaly for finding in of_stores(calls)] == ["two-stores"]
