"""Which groups of the metadata cluster answer the ops of a workload."""

from __future__ import annotations

import pytest

from splitbrain.harness.systems.metadata import Metadata
from splitbrain.workloads.catalogue import needs


@pytest.mark.parametrize(
    ("workload", "groups"),
    [
        ("register", ("metadata",)),
        ("queue", ("queue.*",)),
        ("stream", ("stream-coordinator",)),
        ("short-stream", ("stream-coordinator",)),
        ("replicas", ("metadata", "queue.*")),  # looks, drains and changes are answered by the store
        ("conversion", ("metadata",)),  # only its conversions need a majority
    ],
)
def test_the_groups_that_answer_a_workload(workload: str, groups: tuple[str, ...]) -> None:
    elections = Metadata().capabilities.elections
    assert elections is not None
    assert elections.groups_for(needs(workload)) == groups
