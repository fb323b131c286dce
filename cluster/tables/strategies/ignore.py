"""MN-4: nothing is done about a partition but to make a partial one whole (MN-8). Both sides serve what they have."""

from __future__ import annotations

from splitbrain.cluster.tables.strategies.strategy import Strategy


class Ignore(Strategy):
    """See the module."""
