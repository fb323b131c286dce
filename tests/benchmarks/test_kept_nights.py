"""After nights and `prune` every violation is replayable, and what nights keep is small."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.kept_nights import keep


@pytest.mark.slow
def test_after_thirty_nights_and_prune_every_violation_is_still_replayable(tmp_path: Path) -> None:
    found = keep(tmp_path, 30, 1)
    assert found.runs == 60
    assert found.violations >= 20
    assert found.stored >= 20
    assert found.not_replayable == []
    assert found.removed >= 30, "runs that passed are gone"
    assert found.after_bytes < found.before_bytes
    assert found.night_bytes < 30 * 300_000
