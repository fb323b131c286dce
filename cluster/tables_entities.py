"""Entities over a client of the table store, for users of the cluster from outside."""

from __future__ import annotations

from splitbrain.cluster.tables.entities.store import TablesStore

__all__ = ["TablesStore"]
