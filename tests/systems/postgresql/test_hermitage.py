"""The schedules of Hermitage come out on a real PostgreSQL as its documentation says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.systems.postgresql.conftest import Running
from tests.systems.postgresql.hermitage import LEVELS, lines, schedules, summary

CORPORA = os.environ.get("SPLITBRAIN_CORPORA")

pytestmark = pytest.mark.skipif(CORPORA is None, reason="SPLITBRAIN_CORPORA is not set: no published schedules here")


def folder() -> Path:
    assert CORPORA is not None
    return Path(CORPORA, "hermitage")


def test_every_schedule_is_read_with_the_level_and_the_anomaly_that_it_is_about() -> None:
    text = (folder() / "postgres.md").read_text()
    found = schedules(text)
    assert len(found) == text.count("```sql") - 2, "all but the two that set a table up and show the level"
    anomalies = summary((folder() / "README.md").read_text())
    assert {schedule.level for schedule in found} == set(LEVELS)
    assert all(anomalies[schedule.level, schedule.anomaly] == schedule.prevents for schedule in found)
    assert {anomaly for _, anomaly in anomalies} == {schedule.anomaly for schedule in found}


@pytest.mark.slow
@pytest.mark.cluster
def test_every_schedule_comes_out_as_documented_at_its_level_and_the_stronger_ones(postgresql: Running) -> None:
    async def check() -> None:
        found = await lines(postgresql.deployment, folder())
        assert len(found) > len(LEVELS) * 10
        assert [line for line in found if not line.agrees] == []
        assert {line.level for line in found if not line.prevented} == {"read committed", "repeatable read"}

    postgresql.run(check())
