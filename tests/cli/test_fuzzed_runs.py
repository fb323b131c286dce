"""A sample of what `tests.cli.fuzzed` draws: a damaged run is named, or judged as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from splitbrain.checkers.isolation.judging import judge
from tests.cli.fuzzed import LIMITS, Target

SAMPLE = range(24)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with judge(LIMITS) as by:
        yield Target(tmp_path_factory.mktemp("fuzzed"), by)


def test_every_damage_is_named_or_changes_no_verdict(target: Target) -> None:
    found = [(seed, *target.problem(seed)) for seed in SAMPLE]
    assert [(seed, what, problem) for seed, what, _, problem in found if problem is not None] == []
    assert any(said for _, _, said, _ in found), "no damage was named"
    assert not all(said for _, _, said, _ in found), "no damage left a verdict"
