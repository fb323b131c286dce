"""The checker `replicas` (`splitbrain.checkers.replicas.checker`)."""

from splitbrain.checkers.replicas.checker import Replicas

__all__ = ["Replicas"]
