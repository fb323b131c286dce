"""The schedules of the documentation are valid, on five nodes and for every system that could meet them."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbrain.harness.campaigns.compose import RunOptions, compose
from tests.cli.test_arguments import OPTIONS

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.schedule"))


def test_there_are_examples() -> None:
    assert {"partitions", "stale-leader"} <= {path.stem for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize(("system", "backend"), [("metadata", "sim"), ("metadata", "docker"), ("etcd", "docker")])
def test_a_schedule_composes_a_test_whose_faults_the_backend_has(path: Path, system: str, backend: str) -> None:
    options = {**OPTIONS, "system": system, "backend": backend, "schedule": str(path), "time_limit": 114.0}
    test = compose(RunOptions.of(**options))
    assert test.name == f"{system}-register-schedule"
    assert test.nemesis.faults, "it breaks something"
