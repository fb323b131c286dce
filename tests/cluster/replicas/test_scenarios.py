"""Scenarios One, Two and Three of the document on maintained replicas, a seed of each."""

from __future__ import annotations

import pytest

from tests.cluster.replicas.scenarios import SCENARIOS, play


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_ends_in_the_replicas_that_the_document_names(name: str) -> None:
    play(name, 1)
