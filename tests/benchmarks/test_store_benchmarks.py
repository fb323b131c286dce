"""The benchmarks of the metadata store: what they measure is what they say."""

from __future__ import annotations

import pytest

from benchmarks.tree_store import FAN_OUT, answer, costs, path_of
from splitbrain.cluster import wire
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import PATTERNS_COME, Get, Put, PutNodes


def test_nodes_have_paths_of_their_own_with_so_many_below_each_parent() -> None:
    paths = [path_of(number) for number in range(3 * FAN_OUT)]
    assert len(set(paths)) == len(paths)
    assert {path[:-1] for path in paths} == {("items", f"p{number}") for number in range(3)}


def test_a_get_is_answered_as_a_node_answers_it() -> None:
    store = Store()
    store.tree.version = PATTERNS_COME
    store.tree.execute(Put(path_of(7), b"\x07"))
    request = wire.encode(wire.Request(3, 1_000, wire.LocalQuery(Get(path_of(7)))))
    found = wire.decode_answer(answer(store, request))
    assert found.id == 3
    assert not isinstance(found.outcome, wire.Failure)
    assert not isinstance(store.tree.execute(PutNodes(path_of(7), b"\x07")), wire.Failure)


def test_costs_are_printed_for_each_size_with_an_exponent(capsys: pytest.CaptureFixture[str]) -> None:
    failures = costs(10_000)
    printed = capsys.readouterr().out
    assert [line.split("|")[1].strip() for line in printed.splitlines() if line.startswith("| 1")] == [
        "1,000",
        "10,000",
    ]
    assert printed.count("to the power of") == 2
    assert all("exponent" in failure for failure in failures)
