"""Images of nodes and of systems under test, and the container engine that has them."""

from splitbrain.harness.images.build import ensure, refuse_missing
from splitbrain.harness.images.connection import engine

__all__ = ["engine", "ensure", "refuse_missing"]
