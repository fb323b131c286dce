"""Weak levels against their definition, tried on every order of transactions, and against published verdicts."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from splitbrain.checkers.transactions.columns import transactions_of
from splitbrain.checkers.transactions.weak import LEVELS, Level, judge_weak, judge_weak_all, weak_witness
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.formats import read_table
from splitbrain.results.history import Mop, Op

FOLDER = os.environ.get("SPLITBRAIN_CORPORA")

Txn = tuple[int, str, list[tuple[str, str, int | None]]]
"""Process, how it ended, and micro-operations with what was read."""

INITIAL = -1


def history(transactions: Sequence[Txn]) -> list[Op]:
    ops: list[Op] = []
    for process, end, mops in transactions:
        asked = tuple(Mop(f, key, None if f == "r" else value) for f, key, value in mops)
        answered = tuple(Mop(f, key, value) for f, key, value in mops)
        ops.append(Op(index=len(ops), time=len(ops), process=process, type="invoke", f="txn", mops=asked))
        kind: Any = end
        ops.append(Op(index=len(ops), time=len(ops), process=process, type=kind, f="txn", mops=answered))
    return ops


def judged(transactions: Sequence[Txn]) -> dict[Level, str]:
    return {
        level: found.valid for level, found in judge_weak_all(transactions_of(to_table(history(transactions)))).items()
    }


def drawn(rng: random.Random) -> list[Txn]:
    """A small history: values are unique, and reads find any of them, mostly such that it is not absurd."""
    count, keys = rng.randint(2, 5), "xyz"[: rng.randint(1, 3)]
    value = 0
    plan: list[tuple[int, str, list[tuple[str, str, int | None]]]] = []
    written: dict[str, list[int]] = {key: [] for key in keys}
    for place in range(count):
        mops: list[tuple[str, str, int | None]] = []
        for _ in range(rng.randint(1, 4)):
            key = rng.choice(keys)
            if rng.random() < 0.5:
                value += 1
                mops.append(("w", key, value))
                written[key].append(value)
            else:
                mops.append(("r", key, None))
        end = rng.choice(["ok"] * 8 + ["info", "fail"])
        process = 10 + place if end == "info" else rng.randint(0, 2)
        plan.append((process, end, mops))
    for _, end, mops in plan:
        own: dict[str, int] = {}
        for at, (f, key, wrote) in enumerate(mops):
            if f == "w" and wrote is not None:
                own[key] = wrote
            elif end == "ok":
                found = own[key] if key in own and rng.random() < 0.95 else rng.choice([None, *written[key]])
                mops[at] = ("r", key, found)
    return plan


class Definition:
    """The levels as Biswas and Enea define them, by trying orders."""

    def __init__(self, transactions: Sequence[Txn]) -> None:
        self.transactions = transactions
        self.absurd = False
        self.source: dict[tuple[int, int], int] = {}
        writer = {
            (key, value): (number, at)
            for number, (_, _, mops) in enumerate(transactions)
            for at, (f, key, value) in enumerate(mops)
            if f == "w"
        }
        final = {(number, key): at for (key, _), (number, at) in sorted(writer.items(), key=lambda each: each[1])}
        for number, (_, end, mops) in enumerate(transactions):
            own: dict[str, int | None] = {}
            for at, (f, key, value) in enumerate(mops):
                if f == "w":
                    own[key] = value
                elif end == "ok" and key in own:
                    self.absurd |= own[key] != value
                elif end == "ok" and value is None:
                    self.source[number, at] = INITIAL
                elif end == "ok":
                    other, place = writer[key, value]
                    wrong = other == number or transactions[other][1] == "fail" or final[other, key] != place
                    self.absurd |= wrong
                    self.source[number, at] = other
        read = set(self.source.values())
        self.happened = [
            n for n, each in enumerate(transactions) if each[1] == "ok" or (each[1] == "info" and n in read)
        ]
        self.writes = {n: {key for f, key, _ in transactions[n][2] if f == "w"} for n in self.happened}

    def before(self, one: int, other: int) -> bool:
        """One step of a session or of a read."""
        same = self.transactions[one][0] == self.transactions[other][0] and one < other
        return same or any(reader == other and source == one for (reader, _), source in self.source.items())

    def causes(self, one: int, other: int) -> bool:
        seen, stack = {one}, [one]
        while stack:
            here = stack.pop()
            for there in self.happened:
                if there not in seen and self.before(here, there):
                    seen.add(there)
                    stack.append(there)
        return other in seen and one != other

    def premise(self, level: Level, one: int, reader: int, at: int) -> bool:
        if level == "read-committed":
            return any(r == reader and a < at and source == one for (r, a), source in self.source.items())
        return self.causes(one, reader) if level == "causal" else self.before(one, reader)

    def satisfies(self, level: Level) -> bool:
        if self.absurd:
            return False
        needed = {(one, other) for one in self.happened for other in self.happened if self.before(one, other)}
        for (reader, at), source in self.source.items():
            key = self.transactions[reader][2][at][1]
            for one in self.happened:
                if one not in (source, reader) and key in self.writes[one] and self.premise(level, one, reader, at):
                    if source == INITIAL:
                        return False
                    needed.add((one, source))
        return any(
            all(order.index(one) < order.index(other) for one, other in needed if one != other)
            and all(one != other for one, other in needed)
            for order in permutations(self.happened)
        )


def agrees(seed: int, count: int) -> dict[str, int]:
    rng = random.Random(seed)
    found: dict[str, int] = {}
    for _ in range(count):
        transactions = drawn(rng)
        definition = Definition(transactions)
        expected = {level: "true" if definition.satisfies(level) else "false" for level in LEVELS}
        assert judged(transactions) == expected, transactions
        name = "".join(each[0] for each in expected.values())
        found[name] = found.get(name, 0) + 1
    return found


def test_a_read_of_another_session_is_no_read_of_the_same_transaction() -> None:
    transactions: list[Txn] = [
        (2, "ok", [("w", "x", 1)]),
        (2, "ok", [("r", "x", 1), ("r", "y", None)]),
        (0, "ok", [("r", "x", None)]),  # numbered before them, as its session is the first
    ]
    assert set(judged(transactions).values()) == {"true"}


def test_levels_are_those_of_the_definition() -> None:
    found = agrees(seed=1, count=400)
    assert set(found) >= {"ttt", "fff", "tff"}


@pytest.mark.slow
def test_levels_are_those_of_the_definition_on_many_histories() -> None:
    found = agrees(seed=2, count=2_000)
    assert min(found.get(name, 0) for name in ("ttt", "ttf", "tff", "fff")) >= 2, found


def shown(transactions: Sequence[Txn], level: Level) -> tuple[str, str]:
    table = to_table(history(transactions))
    columns = transactions_of(table)
    witness = weak_witness(table, columns, judge_weak(columns, level))
    return witness.anomaly, witness.sentence


def test_a_violation_is_told_in_sentences() -> None:
    fork: list[Txn] = [
        (0, "ok", [("w", "x", 1), ("w", "y", 1)]),
        (1, "ok", [("r", "x", 1), ("w", "x", 2)]),
        (2, "ok", [("r", "y", 1), ("r", "x", None)]),
    ]
    sentence = (
        "T2 read x as nothing, although T1 wrote it, and T2 had read y from T1 before that: T1 would come before the "
        "initial state."
    )
    assert shown(fork, "read-committed") == ("non-monotonic-read", sentence)
    chain: list[Txn] = [
        (0, "ok", [("w", "x", 1)]),
        (0, "ok", [("w", "x", 2)]),
        (1, "ok", [("r", "x", 2), ("w", "y", 1)]),
        (2, "ok", [("r", "y", 1), ("r", "x", 1)]),
    ]
    assert judged(chain) == {"read-committed": "true", "read-atomic": "true", "causal": "false"}
    anomaly, sentence = shown(chain, "causal")
    assert anomaly == "causal-violation"
    assert "although" in sentence
    assert sentence.endswith("So T1 would come before itself.")


@pytest.mark.parametrize(
    ("transactions", "anomaly"),
    [
        ([(0, "fail", [("w", "x", 1)]), (1, "ok", [("r", "x", 1)])], "G1a"),
        ([(0, "ok", [("w", "x", 1), ("w", "x", 2)]), (1, "ok", [("r", "x", 1)])], "G1b"),
        ([(0, "ok", [("r", "x", 7)])], "garbage-read"),
        ([(0, "ok", [("w", "x", 1), ("r", "x", None)])], "internal"),
        ([(0, "ok", [("r", "x", 1), ("w", "x", 1)])], "future-read"),
        ([(0, "ok", [("r", "x", 2), ("w", "y", 1)]), (1, "ok", [("r", "y", 1), ("w", "x", 2)])], "G1c"),
    ],
)
def test_what_no_level_allows_is_named(transactions: list[Txn], anomaly: str) -> None:
    for level in LEVELS:
        assert shown(transactions, level)[0] == anomaly


def test_a_crashed_transaction_counts_once_it_was_read_from() -> None:
    lost: list[Txn] = [(5, "info", [("w", "x", 1), ("w", "y", 1)]), (1, "ok", [("r", "x", None), ("r", "y", None)])]
    assert set(judged(lost).values()) == {"true"}
    half: list[Txn] = [lost[0], (1, "ok", [("r", "x", 1), ("r", "y", None)])]
    assert judged(half) == dict.fromkeys(LEVELS, "false")


def test_a_value_that_two_transactions_wrote_leaves_the_answer_open() -> None:
    twice: list[Txn] = [(0, "ok", [("w", "x", 1)]), (1, "ok", [("w", "x", 1)]), (2, "ok", [("r", "x", 1)])]
    assert judged(twice) == dict.fromkeys(LEVELS, "unknown")


def test_lists_are_refused() -> None:
    ops = [Op(index=0, time=0, process=0, type="invoke", f="txn", mops=(Mop("append", "x", 1),))]
    with pytest.raises(HistoryFormatError, match="it has lists"):
        judge_weak(transactions_of(to_table(ops)), "causal")


def published() -> list[tuple[str, dict[str, bool]]]:
    if FOLDER is None:
        return []
    found: list[tuple[str, dict[str, bool]]] = []
    for source in ("awdit-tests", "rw-register-sim"):
        manifest: Any = json.loads((Path(FOLDER) / source / "MANIFEST.json").read_text(encoding="utf-8"))
        found += [
            (f"{source}/{entry['file']}", entry["expected"])
            for entry in manifest["files"]
            if entry["consistency_model"] == "RC/RA/CC"
        ]
    return found


@pytest.mark.skipif(FOLDER is None, reason="SPLITBRAIN_CORPORA is not set: no published histories here")
def test_published_histories_have_the_verdicts_of_awdit() -> None:
    assert len(published()) == 31
    for file, expected in published():
        table = read_table(Path(str(FOLDER)) / file)
        columns = transactions_of(table)
        found = judge_weak_all(columns)
        verdicts = dict(zip(LEVELS, ("rc", "ra", "cc"), strict=True))
        assert {level: each.valid for level, each in found.items()} == {
            level: str(expected[name]).lower() for level, name in verdicts.items()
        }, file
        for each in found.values():
            if each.valid == "false":
                assert weak_witness(table, columns, each).sentence


def many(rng: random.Random) -> list[Txn]:
    """Several sessions on few keys: blind writes and updates of what was read; some reads find older versions.

    Some sessions end, and others begin.
    """
    sessions, keys = list(range(rng.randint(2, 9))), rng.randint(1, 4)
    ending = rng.choice([0.0, 0.1, 0.4])
    stale, blind = rng.choice([0.0, 0.02, 0.1, 0.4]), rng.random()
    versions: dict[str, list[int | None]] = {f"k{number}": [None] for number in range(keys)}
    found: list[Txn] = []
    for _ in range(rng.randint(10, 60)):
        mops: list[tuple[str, str, int | None]] = []
        for key in rng.sample(sorted(versions), rng.randint(1, keys)):
            writes = rng.random() < 0.5
            if not writes or rng.random() > blind:
                old = rng.random() < stale
                mops.append(("r", key, rng.choice(versions[key][-6:]) if old else versions[key][-1]))
            if writes:
                versions[key].append(1 + sum(map(len, versions.values())))
                mops.append(("w", key, versions[key][-1]))
        place = rng.randrange(len(sessions))
        found.append((sessions[place], "ok", mops))
        if rng.random() < ending:
            sessions[place] = max(sessions) + 1
    return found


def is_causal(transactions: Sequence[Txn]) -> tuple[bool, list[int]]:
    """By the definition: what each read needs besides, of all that comes before its reader, closes no cycle.

    With it what comes before each transaction by sessions and reads.
    """
    writer = {(k, v): n for n, (_, _, mops) in enumerate(transactions) for f, k, v in mops if f == "w"}
    before: list[int] = []  # of each transaction the set of those that come before it, as the bits of a number
    reads: list[tuple[int, str, int | None]] = []
    for number, (process, _, mops) in enumerate(transactions):
        sources = [each for each in range(number) if transactions[each][0] == process]
        for f, key, value in mops:
            if f == "r":
                source = None if value is None else writer[key, value]
                reads.append((number, key, source))
                sources += [] if source is None else [source]
        known = 0
        for each in sources:
            known |= before[each] | 1 << each
        before.append(known)
    after = list(before)
    for reader, key, source in reads:
        for (each, _), other in writer.items():
            if each == key and other != source and before[reader] >> other & 1:
                if source is None:
                    return False, before
                after[source] |= 1 << other
    left = set(range(len(transactions)))
    while free := {each for each in left if not any(after[each] >> other & 1 for other in left)}:
        left -= free
    return not left, before


def test_causal_consistency_of_many_sessions_is_decided_by_its_definition() -> None:
    answers: list[bool] = []
    for seed in range(200):
        transactions = many(random.Random(f"many {seed}"))
        found = judge_weak(transactions_of(to_table(history(transactions))), "causal")
        answer, before = is_causal(transactions)
        assert (found.valid == "true") == answer, seed
        answers.append(answer)
        readers = np.searchsorted(found.nodes.mop_start, found.pairs.read, side="right") - 1
        for writer, reader in zip(found.nodes.transaction[found.pairs.before], readers, strict=True):
            assert before[reader] >> int(writer) & 1, seed
    assert 40 < sum(answers) < 160


def test_sessions_of_which_nobody_knows_all_need_a_chain_each() -> None:
    alone: list[Txn] = [(number, "ok", [("w", f"k{number}", 1)]) for number in range(60)]
    all_read: list[tuple[str, str, int | None]] = [("r", f"k{number}", 1) for number in range(60)]
    stale: Txn = (99, "ok", [("r", "k7", None)])
    assert judged([*alone, (99, "ok", all_read)])["causal"] == "true"
    assert judged([*alone, (99, "ok", all_read), stale])["causal"] == "false"
