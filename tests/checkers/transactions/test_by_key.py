"""A history taken apart by key has the verdict that it has as a whole: random ones with anomalies, published ones."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from benchmarks.transaction_histories import Shape, history
from splitbrain.checkers.spark.by_keys import can_be_taken_apart
from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.by_key import barriers, concluding, parts, reasons, rest, rows, trimming
from splitbrain.checkers.transactions.by_key.edges import edge_rows
from splitbrain.checkers.transactions.columns import Transactions, transactions_of
from splitbrain.checkers.transactions.inference import CASES
from splitbrain.checkers.transactions.judging import Expected, Workload
from splitbrain.checkers.transactions.models import IN_PART
from splitbrain.results.arrow import to_table, write_parquet
from splitbrain.results.columns import numbers, valid
from splitbrain.results.history import Mop, Op
from tests.checkers.transactions import by_key_here
from tests.checkers.transactions.brute_force import Txn, ops_of
from tests.checkers.transactions.corpora import Case, cases
from tests.checkers.transactions.test_unknown_in_a_session import BEFORE, INTO, LATE, as_registers

FOLDER = os.environ.get("SPLITBRAIN_CORPORA")


def _typed(case: Case) -> pa.Table | None:
    """The history of a published case, if it has typed micro-operations only."""
    if case.workload not in ("list-append", "rw-register"):
        return None
    table = case.load()
    is_txn = np.array([f == "txn" for f in table.column("f").to_pylist()])
    known = valid(table.column("mops"))
    return table if table.num_rows < 2_500 and is_txn.any() and known[is_txn].all() else None


PUBLISHED = (
    [] if FOLDER is None else [case for case in cases(Path(FOLDER)) if case.name.startswith(("golden", "elle-cli"))]
)


def test_small_histories_by_key_are_judged_as_a_whole() -> None:
    for name, table, workload, model in by_key_here.random_cases(11, 60):
        assert not by_key_here.differs(table, workload, model, 4), (name, workload, model)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("workload", ["list-append", "rw-register"])
@pytest.mark.parametrize("model", ["strict-serializable", "strong-session-serializable", "snapshot-isolation"])
def test_histories_with_all_anomalies_are_judged_by_key_as_a_whole(workload: Workload, model: str) -> None:
    table = by_key_here.combined(5, workload, 40)
    assert not by_key_here.differs(table, workload, model, 24)


def test_the_combined_histories_have_anomalies_of_every_kind() -> None:
    from splitbrain.checkers import engine
    from splitbrain.checkers.verdict import CheckerSpec

    found: set[str] = set()
    for workload in ("list-append", "rw-register"):
        table = by_key_here.combined(5, workload, 40)
        [verdict] = engine.judge(table, [CheckerSpec(workload, {"consistency_models": ["serializable"]})])
        found |= {*verdict.evidence["anomaly_types"], *verdict.evidence.get("tolerated", ())}
    assert found >= {each for each in by_key_here.PLANTED if each[0] in "Gdfgil"} - {"G2-item"}


@pytest.mark.parametrize("lists", [LATE, BEFORE, INTO])
def test_no_order_of_a_process_begins_by_key_at_what_may_come_later(lists: list[Txn]) -> None:
    model = "strong-session-serializable"
    assert not by_key_here.differs(to_table(ops_of(lists)), "list-append", model, 4)
    assert not by_key_here.differs(to_table(ops_of(as_registers(lists))), "rw-register", model, 4)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("workload", ["list-append", "rw-register"])
@pytest.mark.parametrize("model", sorted(IN_PART))
def test_what_is_not_looked_for_is_not_said_to_hold_by_key(workload: Workload, model: str) -> None:
    table = history(Shape(60, clients=3, level="serial", registers=workload == "rw-register", seed=3))
    assert not by_key_here.differs(table, workload, model, 20)


def test_assumptions_of_registers_hold_by_key() -> None:
    table = by_key_here.combined(6, "rw-register", 20)
    assumed = {"sequential_keys": True, "linearizable_keys": True, "wfr_keys": True}
    assert not by_key_here.differs(table, "rw-register", "serializable", 24, **assumed)


@pytest.mark.slow
def test_published_histories_are_judged_by_key_as_a_whole() -> None:
    judged = 0
    for case in PUBLISHED:
        table = _typed(case)
        if table is None or case.assumptions.any or len(case.expected.models) != 1 or case.expected.anomalies:
            continue
        judged += 1
        assert not by_key_here.differs(table, case.workload, case.expected.models[0], 8), case.name
    assert judged > 20 or FOLDER is None


@pytest.mark.parametrize("level", ["serial", "snapshot", "none"])
@pytest.mark.parametrize("registers", [False, True])
def test_histories_of_a_database_are_judged_by_key_as_a_whole(level: str, registers: bool) -> None:
    table = history(Shape(600, clients=5, level=level, registers=registers, seed=3))
    workload: Workload = "rw-register" if registers else "list-append"
    assert not by_key_here.differs(table, workload, "strict-serializable", 150)


def test_micro_operations_survive_the_way_through_rows(tmp_path: Path) -> None:
    table = by_key_here.combined(7, "list-append", 12)
    whole = transactions_of(table)
    write_parquet(table, tmp_path / "h")
    called = _called(whole)
    again = rows.part_of(rows.mop_rows(tmp_path / "h", 0, table.num_rows, called, 5)).transactions
    assert again.key_names == whole.key_names
    assert [again.read(mop) for mop in range(again.mop_count)] == [whole.read(mop) for mop in range(whole.mop_count)]
    for name in ("process", "invoked", "completed", "status", "mop_start", "mop_kind", "mop_key", "mop_value"):
        assert np.array_equal(getattr(again, name), getattr(whole, name)), name


def test_a_list_travels_once(tmp_path: Path) -> None:
    shape = history(Shape(500, level="serial", seed=1))
    lists = transactions_of(shape)
    write_parquet(shape, tmp_path / "h")
    found = rows.mop_rows(tmp_path / "h", 0, shape.num_rows, _called(lists), 1)
    lists: Any = found.column("elements").combine_chunks()
    carried = len(lists.flatten())
    assert carried == len({(key, each) for key, each in _elements(shape)})


def _called(found: Transactions) -> rows.Called:
    row, unknown = found.completed.copy(), found.status != 0
    row[unknown] = found.invoked[unknown]
    return rows.Called(row, found.invoked, found.completed, found.process.astype(np.int64), found.status)


def _elements(table: pa.Table) -> list[tuple[int, int]]:
    found = transactions_of(table)
    return [
        (int(found.mop_key[mop]), each)
        for mop in range(found.mop_count)
        if found.list_length[mop] > 0
        for each in found.read(mop)
    ]


def test_the_first_cases_of_all_groups_are_shown() -> None:
    cases = [parts.Cited("G1a", rows.Ref(at, 0), (at,), "x", (rows.Ref(at, 0),), (1,)) for at in range(2 * CASES)]
    notes = [parts.Note(counts={"G1a": CASES}, cases=tuple(some)) for some in (cases[1::2], cases[::2])]
    found = parts.together(notes)
    assert found.cases == tuple(cases[:CASES])
    assert found.counts == {"G1a": 2 * CASES}


def test_who_read_an_unknown_outcome_is_cited_as_its_proof() -> None:
    how = parts.How("h", "list-append", Assumptions(), derives=False)
    proof = reasons.Why(proofs=(reasons.Proof(rows.Ref(4, 0), rows.Ref(9, 1)),))
    found = concluding.Found(how, Expected(), parts.Note(), rest.Rest({}, (), 0), 0, 0, False, [proof])
    assert 9 in found.cited


def test_a_joint_is_where_the_first_is_that_it_leads_to() -> None:
    last = np.iinfo(np.int64).max
    for links, expected in (
        ([(3, 0), (4, 3), (4, 1)], [7, 5]),  # a joint leads to the one before it
        ([(3, 0), (3, 4), (4, 1)], [5, 5]),  # or to the one behind it
    ):
        source, target = np.array(links, np.int32).T.copy()
        time = np.array([7, 5, 9, last, last], np.int64)
        parts.time_joints(source, target, 3, time)
        assert time.tolist()[3:] == expected


# --- where a graph falls apart ----------------------------------------------------------------------------------------


def test_no_edge_leads_back_over_a_cut_and_an_earlier_moment_has_one_that_does() -> None:
    draw = random.Random(3)
    for _ in range(500):
        begin, width = draw.randrange(20), draw.randrange(1, 30)
        low = np.array([draw.randrange(begin, begin + width) for _ in range(draw.randrange(6))], np.int64)
        high = low + np.array([draw.randrange(1, 12) for _ in low], np.int64)
        carry = draw.randrange(-1, begin + width + 5)

        def crossed(moment: int, low: np.ndarray = low, high: np.ndarray = high, carry: int = carry) -> bool:
            return carry >= moment or bool(((low < moment) & (high >= moment)).any())

        free = [moment for moment in range(begin, begin + width) if not crossed(moment)]
        assert trimming.first_cut(begin, begin + width, low, high, carry) == (free[0] if free else None)


def test_only_edges_on_cycles_are_left() -> None:
    ring = [(1, 2), (2, 3), (3, 1)]
    rest = [(0, 1), (3, 4), (4, -5), (-5, 6)]
    columns = np.array([*ring, *rest], np.int64).T
    zeros = np.zeros(columns.shape[1], np.int64)
    left = trimming.cyclic_edges(edge_rows(columns[0], columns[1], zeros, zeros, zeros))
    assert sorted(zip(left.column("source").to_pylist(), left.column("target").to_pylist(), strict=True)) == ring


def test_barriers_of_pieces_say_what_was_over_before_what_began() -> None:
    draw = random.Random(4)
    for _ in range(100):
        spans = _spans(draw, draw.randrange(1, 12))
        edges: set[tuple[int, int]] = set()
        piece = draw.choice([3, 5, 8])
        pieces = max(begin for begin, _ in spans) // piece + 1
        for number in range(pieces):
            events = [(b, barriers.INVOKES, b, 0) for b, _ in spans] + [(e, barriers.COMPLETES, b, 0) for b, e in spans]
            first, end = number * piece, (number + 1) * piece
            mine = np.array([each for each in events if first <= each[0] < end], np.int64).reshape(-1, 4).T
            found = barriers.barrier_rows(first, end, *mine, last=number == pieces - 1)
            edges |= set(zip(*(numbers(found.column(each)).tolist() for each in ("source", "target")), strict=True))
        for begin, end in spans:
            after = {each for each in _reached(edges, begin) if each >= 0}
            assert after == {other for other, _ in spans if other > end}


def _spans(draw: random.Random, count: int) -> list[tuple[int, int]]:
    moments = list(range(2 * count))
    draw.shuffle(moments)
    return sorted((min(pair), max(pair)) for pair in zip(moments[::2], moments[1::2], strict=True))


def _reached(edges: set[tuple[int, int]], begin: int) -> set[int]:
    met, waiting = set[int](), [begin]
    while waiting:
        node = waiting.pop()
        more = {target for source, target in edges if source == node} - met
        met |= more
        waiting += more
    return met


# --- which files ------------------------------------------------------------------------------------------------------


def test_a_file_is_taken_apart_if_its_micro_operations_are_typed(tmp_path: Path) -> None:
    typed = [Op(process=0, type="invoke", f="txn", mops=(Mop("r", "x"),)), Op(process=-1, type="info", f="phase")]
    text = [Op(process=0, type="invoke", f="txn", value=[["r", "x", None]])]
    for name, ops, expected in (("typed", typed, True), ("text", text, False)):
        numbered = [msgspec.structs.replace(op, index=at) for at, op in enumerate(ops)]
        write_parquet(to_table(numbered), tmp_path / name)
        assert can_be_taken_apart(tmp_path / name) == expected
    write_parquet(to_table([msgspec.structs.replace(typed[0], index=3)]), tmp_path / "gap")
    assert not can_be_taken_apart(tmp_path / "gap")
