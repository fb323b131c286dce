"""The tree, what keeps its nodes, and transactions, against the naive model (KH-1 to KH-8, D14, D15); a sample."""

from __future__ import annotations

from tests.cluster.tree.cases import Runner
from tests.cluster.tree.modelled import condition, run
from tests.cluster.tree.naive import Naive, Test


def test_kh_1_to_kh_8_the_tree_is_as_the_model_says_after_every_step() -> None:
    run(2_000, same=True)


def test_kh_7_a_condition_that_is_made_of_one_holds_of_nothing_where_that_one_does() -> None:
    """The store writes conditions in short, as Khepri does, before it asks whether they hold of nothing."""
    absent: Test = ("not", ("all", (("exists", True),)))
    runner, model = Runner(), Naive()
    kept = [{"path": ["a"], "condition": condition(absent)}]
    put = {"op": "put", "adv": True, "path": ["a", "b"], "payload": {"data": 1}, "options": {"keep_while": kept}}
    answer = runner.step(put)
    assert [node["delete_reason"] for node in answer["ok"]["nodes"]] == ["keep_while"] * 2
    assert model.put(("a", "b"), 1, None, ((("a",), absent),)) == []
    assert [path for path, _ in runner.tree.contents()] == list(model.shape()) == [()]
