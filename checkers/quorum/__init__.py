"""Quorum-progress analysis: nodes with a quorum answered, and nodes without one did not."""

from splitbrain.checkers.quorum.checker import QuorumProgress

__all__ = ["QuorumProgress"]
