"""The tree, what keeps its nodes, and transactions, against the naive model (KH-1 to KH-8, D14, D15); a sample."""

from __future__ import annotations

from tests.cluster.tree.modelled import run


def test_kh_1_to_kh_8_the_tree_is_as_the_model_says_after_every_step() -> None:
    run(2_000, same=True)
