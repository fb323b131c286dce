"""The index against the naive model, with restarts, kills and losses of power (CQ-1 to CQ-3, CQ-8); a sample."""

from __future__ import annotations

import pytest

from tests.cluster.classic.naive import run


def test_cq_1_to_cq_8_the_index_is_as_the_model_says_after_every_step_and_restart() -> None:
    run(60, same=True)


@pytest.mark.slow
def test_cq_1_to_cq_8_the_same_with_many_runs() -> None:
    run(1_000, same=True)
