"""The queue machine against the naive model (QQ-1 to QQ-7); a sample."""

from __future__ import annotations

from tests.cluster.queues.modelled import run


def test_qq_1_to_qq_7_the_queue_is_as_the_model_says_after_every_step() -> None:
    run(600, same=True)
