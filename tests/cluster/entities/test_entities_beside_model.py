"""Entities, their projections and routing against a naive model (DB-1 to DB-6, DB-8, DB-9); a sample."""

from __future__ import annotations

from tests.cluster.entities.entities_modelled import run


def test_db_1_to_db_9_entities_projections_and_routes_are_as_the_model_says_after_every_step() -> None:
    run(600, same=True)
