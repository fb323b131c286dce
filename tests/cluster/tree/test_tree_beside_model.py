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


def test_kh_7_what_a_command_makes_and_removes_again_ends_what_watches_it() -> None:
    """A child that cannot stay goes in the command that makes it, and its parent, whose condition is on it, with it.

    As in Khepri, which looks at each condition on a path that a command touched, by what is there at that time.
    """
    runner, model = Runner(), Naive()
    on_child, on_parent = (("p", "q"), ("has_payload", True)), (("p",), ("child_list_version", 1))
    for path, (watched, test) in ((("p",), on_child), (("p", "q"), on_parent)):
        kept = [{"path": list(watched), "condition": condition(test)}]
        put = {"op": "put", "adv": True, "path": list(path), "payload": {"data": 1}, "options": {"keep_while": kept}}
        runner.step(put)
        model.put(path, 1, None, ((watched, test),))
    assert [path for path, _ in runner.tree.contents()] == list(model.shape()) == [()]
