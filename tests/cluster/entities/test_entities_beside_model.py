"""Entities, their projections and routing against a naive model (DB-1 to DB-6, DB-8, DB-9); a sample."""

from __future__ import annotations

import pytest

from tests.cluster.entities.entities_modelled import run
from tests.cluster.entities.side_by_side import TreeBesideTables


def test_db_1_to_db_9_entities_projections_and_routes_are_as_the_model_says_after_every_step() -> None:
    run(600, same=True)


def test_db_7_tables_give_the_answers_errors_and_records_of_the_tree() -> None:
    run(300, same=True, machine=TreeBesideTables)


@pytest.mark.slow
def test_db_7_the_same_with_many_steps() -> None:
    run(1200, same=True, machine=TreeBesideTables)
