"""Saturation looks again only at keys that a new edge can concern: nothing is missed, and every edge has its way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.transaction_histories import Shape, history
from splitbrain.checkers import engine
from splitbrain.checkers.transactions import saturation
from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.columns import Transactions, transactions_of
from splitbrain.checkers.transactions.graph import I64, Edges, parts
from splitbrain.checkers.transactions.open_keys import Keys
from splitbrain.checkers.transactions.order import process_edges, realtime_edges
from splitbrain.checkers.transactions.registers import infer_registers
from splitbrain.checkers.transactions.saturation import Derivation, Saturated, saturate
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.results.arrow import to_table
from tests.checkers.transactions.brute_force import SERIAL, is_serial, ops_of
from tests.checkers.transactions.definitions import Txn

Case = tuple[Transactions, list[Edges], int, Keys]


def case(seed: int, tag: int) -> Case:
    """A history of a serial database in which writers crash, so that the order of many keys stays open at first."""
    transactions = transactions_of(history(Shape(3000, registers=True, clients=12, seed=seed)))
    found = infer_registers(transactions, Assumptions())
    edges, nodes = list(found.edges), found.nodes
    if tag == 1:
        edges.append(process_edges(transactions, found.committed))
    if tag == 2:
        further, nodes = realtime_edges(transactions, found.committed, nodes)
        edges.append(further)
    return transactions, edges, nodes, found.keys()


@pytest.mark.parametrize("tag", [0, 1, 2])
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_follows_from_what_was_found(seed: int, tag: int) -> None:
    _, edges, nodes, keys = case(seed, tag)
    found = saturate(nodes, edges, keys, tag)
    assert found.derived.count
    assert not found.spent
    again = saturate(nodes, [*edges, found.edges], keys, tag)
    assert _unlabelled(again) <= _unlabelled(found)
    assert sorted(again.closed) == sorted(found.closed)


@pytest.mark.parametrize("tag", [0, 1, 2])
def test_every_edge_has_a_way_that_was_known_before(tag: int) -> None:
    transactions, edges, nodes, keys = case(3, tag)
    found = saturate(nodes, edges, keys, tag)
    derivation = Derivation(tuple(edges), nodes, found)
    mops, owners = np.append(keys.write, keys.read), np.append(keys.writer, keys.reader)
    of_mop = dict(zip(mops.tolist(), owners.tolist(), strict=True))
    for edge in _edges(found)[::7]:
        premise = derivation.premise(edge)
        assert premise is not None
        ends = of_mop[premise.earlier], of_mop[premise.later]
        way = derivation.way(len(transactions), premise, ends, parts(edge[2])[1:])
        assert (way[0][0], way[-1][1]) == ends


def test_a_way_has_no_antidependency_that_was_derived_where_none_counts() -> None:
    """Found by `brute_force`, history 20004 of seed 20261125: new edges went into the ways of all levels."""
    found = [
        Txn(0, 0, 1, "ok", (("r", "y", None), ("w", "x", 1))),
        Txn(0, 2, 3, "ok", (("w", "y", 3), ("r", "x", 1), ("r", "y", 3))),
        Txn(0, 4, 5, "ok", (("r", "x", 1), ("w", "y", 2))),
        Txn(1, 6, 7, "ok", (("r", "y", 3), ("w", "x", 4))),
    ]
    for model in SERIAL:
        spec = CheckerSpec("rw-register", {"consistency_models": [model]})
        [verdict] = engine.judge(to_table(ops_of(found)), [spec])
        assert "crashes" not in verdict.evidence
        assert (verdict.valid == "true") is is_serial(found, model)


def test_later_rounds_look_at_few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    _, edges, nodes, keys = case(1, 2)
    looks: list[int] = []
    look = saturation._Search._look  # pyright: ignore[reportPrivateUsage]

    def counted(search: Any, which: I64, *others: Any) -> None:
        looks.append(len(which))
        look(search, which, *others)

    monkeypatch.setattr(saturation._Search, "_look", counted)  # pyright: ignore[reportPrivateUsage]
    saturate(nodes, edges, keys, 2)
    assert len(looks) > 1
    assert sum(looks) < 4 * len(keys.number)


def _edges(found: Saturated) -> list[tuple[int, int, int]]:
    edges = found.edges
    return list(zip(edges.source.tolist(), edges.target.tolist(), edges.kind.tolist(), strict=True))


def _unlabelled(found: Saturated) -> set[tuple[int, int, int]]:
    return {(source, target, parts(kind)[0]) for source, target, kind in _edges(found)}
