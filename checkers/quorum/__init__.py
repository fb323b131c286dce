"""Quorum-progress analysis: the right nodes answered, and the wrong ones stayed silent."""

from splitbrain.checkers.quorum.checker import QuorumProgress

__all__ = ["QuorumProgress"]
