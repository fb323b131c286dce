"""The checkers of bank, long fork, G2 and monotonic: each anomaly by the smallest history that has it."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.bank import Bank
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op, OpType

from .support import Script

Step = tuple[int, OpType, str, Any]
"""Process, type, function, value."""

EVEN = {"0": 10, "1": 10}
TWO = {"accounts": 2, "total": 20}


def judged(checker: str, steps: list[Step], **options: Any) -> Verdict:
    """The verdict on a history of one key (none for bank)."""
    key = None if checker == "bank" else "k"
    ops = [
        Op(index=place, time=place, process=process, type=kind, f=f, key=key, value=value, node="n1")
        for place, (process, kind, f, value) in enumerate(steps)
    ]
    [verdict] = engine.judge(to_table(ops), [CheckerSpec(checker, options)], None, weaker=False)
    return verdict


def did(f: str, asked: Any, answer: Any, process: int = 0, ended: OpType = "ok") -> list[Step]:
    """An op with no other one beside it."""
    return [(process, "invoke", f, asked), (process, ended, f, answer)]


def at_once(*ops: tuple[str, Any, Any]) -> list[Step]:
    """Ops of different processes that are all under way together."""
    begun: list[Step] = [(process, "invoke", f, asked) for process, (f, asked, _) in enumerate(ops)]
    return [*begun, *((process, "ok", f, answer) for process, (f, _, answer) in enumerate(ops))]


TRANSFER = {"from": 0, "to": 1, "amount": 3}

FOUND: list[tuple[str, list[Step], dict[str, Any], str]] = [
    ("bank", did("read", None, {"0": 10, "1": 11}), TWO, "wrong-total"),
    ("bank", did("read", None, {"0": -1, "1": 21}), TWO, "negative-balance"),
    ("bank", did("read", None, {"0": 20}), TWO, "wrong-accounts"),
    ("bank", did("read", None, {"0": 20, "1": None}), TWO, "wrong-accounts"),
    ("bank", did("read", None, None), TWO, "wrong-accounts"),
    ("bank", [*did("read", None, {"a": 1}), *did("read", None, EVEN), *did("read", None, EVEN)], {}, "wrong-accounts"),
    ("bank", [*did("read", None, EVEN), *did("read", None, {"0": 9, "1": 10})], {}, "wrong-total"),
    ("bank", did("read", None, None), {}, "wrong-accounts"),
    (
        "long-fork",
        at_once(("write", 0, 0), ("write", 1, 1), ("read", None, [1, None]), ("read", None, [None, 1])),
        {},
        "long-fork",
    ),
    ("long-fork", did("read", None, [1, None]), {}, "wrong-value"),
    ("long-fork", [*did("write", 0, 0), *did("read", None, [2, None])], {}, "wrong-value"),
    ("long-fork", [*did("write", 0, None, 0, "fail"), *did("read", None, [1, None])], {}, "wrong-value"),
    ("long-fork", [*did("read", None, [1, None]), *did("write", 0, 0)], {}, "wrong-value"),
    ("long-fork", [*did("write", 0, 0), *did("read", None, [True, None])], {}, "wrong-value"),
    ("g2", at_once(("insert", [1, None], [1, None]), ("insert", [None, 2], [None, 2])), {}, "two-inserted"),
    (
        "g2",
        [
            *did("insert", [1, None], None, 0, "info"),
            *did("insert", [None, 2], [None, 2], 1),
            *did("read", None, [1, 2]),
        ],
        {},
        "two-inserted",
    ),
    ("g2", [*did("insert", [1, None], [1, None]), *did("read", None, [None, None])], {}, "vanished"),
    ("g2", did("read", None, [1, None]), {}, "wrong-row"),
    ("g2", [*did("insert", [1, None], None, 0, "fail"), *did("read", None, [1, None])], {}, "wrong-row"),
    ("g2", [*did("read", None, [1, None]), *did("insert", [1, None], [1, None])], {}, "wrong-row"),
    ("g2", [*did("insert", [1, None], [1, None]), *did("read", None, [True, None])], {}, "wrong-row"),
    (
        "g2",
        [
            *did("insert", [1, None], None, 0, "info"),
            *did("insert", [None, 2], [None, 2], 1),
            *did("read", None, [1, None]),
        ],
        {},
        "two-inserted",
    ),
    (
        "g2",
        [
            *did("insert", [1, None], None, 0, "info"),
            *did("read", None, [1, None]),
            *did("insert", [1, None], [1, None], 1),
        ],
        {},
        "two-inserted",
    ),
    (
        "monotonic",
        [*did("increment", 2, None, 1, "info"), *did("increment", 1, [0, 0, 0]), *did("increment", 0, [0, 0, 1])],
        {},
        "not-at-once",
    ),
    ("monotonic", [*did("increment", 2, [0, 0, 0], 1), *did("read", None, [1, 0, 0])], {}, "not-at-once"),
    ("monotonic", [*did("increment", 2, None, 1, "info"), *did("read", None, [1, 0, 0])], {}, "impossible"),
    ("monotonic", at_once(("increment", 0, [1, 0, 0]), ("read", None, [2, 0, 0])), {}, "impossible"),
    (
        "monotonic",
        at_once(("increment", 0, [0, 0, 0]), ("increment", 1, [1, 0, 0]), ("read", None, [2, 2, 0])),
        {},
        "not-at-once",
    ),
    ("monotonic", at_once(("increment", 0, [3, 0, 0]), ("increment", 1, [3, 0, 0])), {}, "duplicate"),
    ("monotonic", at_once(("read", None, [1, 0, 0]), ("read", None, [0, 2, 0])), {}, "not-at-once"),
    ("monotonic", [*did("increment", 0, [0, 0, 0]), *did("read", None, [0, 0, 0], 1)], {}, "went-back"),
    ("monotonic", did("read", None, [1, 0, 0]), {}, "impossible"),
    ("monotonic", [*did("increment", 0, None, 1, "fail"), *did("read", None, [1, 0, 0])], {}, "impossible"),
]


@pytest.mark.parametrize(("checker", "steps", "options", "anomaly"), FOUND)
def test_each_anomaly_is_found_with_the_ops_that_show_it(
    checker: str, steps: list[Step], options: dict[str, Any], anomaly: str
) -> None:
    verdict = judged(checker, steps, **options)
    assert verdict.valid == "false"
    assert anomaly in verdict.anomalies
    assert verdict.sentence
    assert 1 <= len(verdict.evidence["ops"]) <= 2


SOUND: list[tuple[str, list[Step], dict[str, Any]]] = [
    ("bank", at_once(("transfer", TRANSFER, TRANSFER), ("read", None, EVEN), ("read", None, {"0": 7, "1": 13})), TWO),
    (
        "bank",
        at_once(
            ("transfer", TRANSFER, TRANSFER), ("read", None, {"a": 70, "b": 30}), ("read", None, {"a": 67, "b": 33})
        ),
        {},
    ),
    (
        "long-fork",
        at_once(("write", 0, 0), ("write", 1, 1), ("read", None, [1, None]), ("read", None, [1, 1])),
        {},
    ),
    (
        "g2",
        [
            *[(0, "invoke", "insert", [1, None]), (1, "invoke", "insert", [None, 2])],
            *[(0, "fail", "insert", None), (1, "ok", "insert", [None, 2])],
            *did("read", None, [None, 2]),
        ],
        {},
    ),
    ("monotonic", at_once(("increment", 0, [0, 0, 0]), ("increment", 1, [1, 0, 0]), ("read", None, [1, 2, 0])), {}),
]


@pytest.mark.parametrize(("checker", "steps", "options"), SOUND)
def test_what_some_order_explains_is_true_and_was_tested(
    checker: str, steps: list[Step], options: dict[str, Any]
) -> None:
    verdict = judged(checker, steps, **options)
    assert (verdict.valid, verdict.inconclusive) == ("true", ()), verdict.sentence


def test_an_increment_of_unknown_outcome_may_have_counted_and_one_that_failed_may_not() -> None:
    for ended, valid in (("info", "unknown"), ("ok", "false")):
        steps = [*did("increment", 0, [0, 0, 0], 1, ended), *did("read", None, [0, 0, 0])]  # pyright: ignore[reportArgumentType]
        assert judged("monotonic", steps).valid == valid


def test_where_only_sessions_count_another_process_may_see_less() -> None:
    steps = [*did("increment", 0, [0, 0, 0]), *did("read", None, [0, 0, 0], 1)]
    assert judged("monotonic", steps, sessions=True).valid == "unknown"
    steps = [*did("increment", 0, [0, 0, 0]), *did("read", None, [0, 0, 0], 0)]
    assert judged("monotonic", steps, sessions=True).anomalies == ("went-back",)


def test_accounts_may_be_overdrawn_where_the_test_says_so() -> None:
    steps = at_once(("transfer", TRANSFER, TRANSFER), ("read", None, EVEN), ("read", None, {"0": -3, "1": 23}))
    assert judged("bank", steps).anomalies == ("negative-balance",)
    verdict = judged("bank", steps, negative_balances=True)
    assert (verdict.valid, verdict.inconclusive) == ("true", ())
    assert judged("bank", did("read", None, {"0": -3, "1": 24}), negative_balances=True, total=20).valid == "false"
    with pytest.raises(UsageError, match="negative_balances"):
        judged("bank", steps, negative_balances="yes")


def test_each_key_is_a_bank_of_its_own() -> None:
    def steps(wrong: int) -> list[Op]:
        ops = [Op(index=0, time=0, process=-1, type="info", f="kill")]
        for process, (key, first) in enumerate((("a", 10), ("b", 20))):
            for kind, f, value in (
                ("invoke", "read", None),
                ("ok", "read", {"0": first, "1": 0}),
                ("invoke", "read", None),
                ("ok", "read", {"0": first - 3, "1": 3 + wrong}),
            ):
                op = Op(index=len(ops), time=0, process=process, type=kind, f=f, key=key, value=value)  # pyright: ignore[reportArgumentType]
                ops.append(op)
        return ops

    [sound] = engine.judge(to_table(steps(0)), [CheckerSpec("bank")], None, weaker=False)
    assert (sound.valid, sound.figures["reads"], sound.figures["states"]) == ("true", 4, 2)
    assert "the total of their own bank, one of 2" in sound.sentence
    [broken] = engine.judge(to_table(steps(1)), [CheckerSpec("bank")], None, weaker=False)
    assert broken.anomalies == ("wrong-total",)


def test_balances_that_are_fractions_are_refused() -> None:
    with pytest.raises(UsageError, match="whole numbers"):
        judged("bank", did("read", None, {"0": 10.5, "1": 9.5}))


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_an_answer_of_another_shape_hides_nothing_that_is_wrong(odd: int) -> None:
    balances = [did("read", None, {"0": 10, "1": 10}), did("read", None, {"0": 10, "1": 3})]
    balances.insert(odd, did("read", None, {"0": 10.5, "1": 9.5}))
    assert judged("bank", [step for steps in balances for step in steps]).anomalies == ("wrong-total",)
    forks = [did("write", 0, 0), did("read", None, [1, 1])]
    forks.insert(odd, did("read", None, [["r", 0, 1], ["r", 1, None]]))
    assert judged("long-fork", [step for steps in forks for step in steps]).anomalies == ("wrong-value",)


def test_a_write_that_names_no_register_is_refused() -> None:
    with pytest.raises(UsageError, match="the number of its register"):
        judged("long-fork", did("write", [["w", 0, 1]], [["w", 0, 1]]))
    with pytest.raises(UsageError, match="a 1 or null for each register"):
        judged("long-fork", did("read", [["r", 0, None], ["r", 1, None]], [["r", 0, 1], ["r", 1, None]]))


def test_real_time_is_nothing_to_a_long_fork() -> None:
    steps = [*did("write", 0, 0), *did("read", None, [None, None]), *did("write", 1, 1), *did("read", None, [1, None])]
    assert judged("long-fork", steps).valid == "true"


@pytest.mark.parametrize(
    ("checker", "options", "told"),
    [
        ("bank", {"total": "much"}, "option 'total' must be a whole number"),
        ("monotonic", {"sessions": 1}, "option 'sessions' is true or false"),
    ],
)
def test_wrong_options_are_refused(checker: str, options: dict[str, Any], told: str) -> None:
    from splitbrain.checkers.registry import checker as named

    table = to_table([msgspec.structs.replace(Op(process=0, type="invoke", f="read"), index=0, time=0)])
    with pytest.raises(UsageError, match=told):
        named(checker).check(table, options)  # pyright: ignore[reportCallIssue, reportUnknownMemberType]


def test_a_race_of_which_no_answer_shows_anything_proves_nothing() -> None:
    race: list[Step] = [
        *((process, "invoke", "insert", rows) for process, rows in enumerate(([1, None], [None, 2]))),
        *((process, "info", "insert", None) for process in (0, 1)),
    ]
    verdict = judged("g2", race)
    assert verdict.valid == "unknown"
    assert verdict.sentence == (
        "No two insertions of both rows of a pair were under way at once, or nothing of that pair was answered: no "
        "write skew could have shown."
    )
    assert judged("g2", [*race, *did("read", None, [1, None], 2)]).valid == "true"


def test_a_read_of_registers_that_was_answered_by_nothing_saw_no_write() -> None:
    ops = at_once(("write", 0, 0), ("write", 1, 1), ("read", None, None), ("read", None, [None, 1]))
    assert judged("long-fork", ops).valid == "true"


def test_many_banks_take_time_that_grows_with_their_number() -> None:
    def spent_s(banks: int) -> float:
        script = Script()
        for key in range(banks):
            script.call(0, "read", result={"0": 5}, key=str(key))
        table = script.table()
        began_s = time.process_time()
        assert Bank().check(table, {}).figures["reads"] == banks
        return time.process_time() - began_s

    spent_s(100)
    assert spent_s(24_000) < 8 * spent_s(6_000)
