"""Rollbacks that are broken are convicted by the workload `migration`, and the true one is carried out and passes.

The nodes run in this process, so that what they do can be another thing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from splitbrain.checkers.migration import MigrationChecker
from splitbrain.checkers.verdict import Verdict
from splitbrain.cluster.migration import rollback
from splitbrain.cluster.migration.marker import Marker
from splitbrain.cluster.migration.steps import Ended
from splitbrain.cluster.pending import Answering
from splitbrain.cluster.twostores.mover import Mover
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate
from tests.cli.test_arguments import OPTIONS

SEEDS = 4
"""At most so many runs a planted rollback may take."""

RollBack = Callable[[Mover, int, Answering], Awaitable[None]]

TRUE: RollBack = Mover.roll_back


def judged(seed: int) -> Verdict:
    given = {
        "backend": "sim",
        "workload": "migration",
        "nemesis": "none",
        "nodes": "3",
        "concurrency": "2n",
        "time_limit": 15.0,
        "rate": 40.0,
        "seed": seed,
    }
    test = compose(RunOptions.of(**{**OPTIONS, **given}))
    left = simulate(test)
    assert left.failure is None
    options = next(spec.options for spec in test.workload.checkers if spec.name == MigrationChecker.name)
    return MigrationChecker().check(left.history, options)


def begins_again(patched: pytest.MonkeyPatch) -> None:
    """The marker does not say that someone wanted the tables back, so a node goes on as the flag decides."""
    wanted = rollback._wanted  # pyright: ignore[reportPrivateUsage]

    def forgetful(there: Marker) -> Marker | Ended:
        to_be = wanted(there)
        return to_be if isinstance(to_be, Ended) else msgspec.structs.replace(to_be, rolled_back=False)

    async def roll_back(self: Mover, timeout_ms: int, answer: Answering) -> None:
        await TRUE(self, timeout_ms, answer)
        self._settled = False  # pyright: ignore[reportPrivateUsage]

    patched.setattr(rollback, "_wanted", forgetful)
    patched.setattr(Mover, "roll_back", roll_back)


def stays(patched: pytest.MonkeyPatch) -> None:
    """It is acknowledged, and the tree stays in force."""

    async def roll_back(self: Mover, timeout_ms: int, answer: Answering) -> None:
        there = await self._marker()  # pyright: ignore[reportPrivateUsage]
        if there.tree_is_in_force and not there.written:
            answer(0, await self.state(timeout_ms), 0)
        else:
            await TRUE(self, timeout_ms, answer)

    patched.setattr(Mover, "roll_back", roll_back)


def after_a_write(patched: pytest.MonkeyPatch) -> None:
    """It is carried out also when the tree has taken a change."""
    wanted = rollback._wanted  # pyright: ignore[reportPrivateUsage]

    def blind(there: Marker) -> Marker | Ended:
        return wanted(msgspec.structs.replace(there, written=False))

    patched.setattr(rollback, "_wanted", blind)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("plant", "anomalies"),
    [(begins_again, {"unasked"}), (stays, {"unasked"}), (after_a_write, {"went-back", "lost"})],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_broken_rollback_is_convicted(
    plant: Callable[[pytest.MonkeyPatch], None], anomalies: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(1, SEEDS + 1):
        found = judged(seed)
        if found.valid == "false":
            assert anomalies & set(found.anomalies), found.sentence
            return
    pytest.fail(f"{SEEDS} runs without a violation")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_true_rollback_is_carried_out_and_passes(seed: int) -> None:
    found = judged(seed)
    assert found.valid == "true", found.sentence
    assert found.figures["ways_back"] >= 1
    assert found.figures["rollbacks_refused"] >= 1
