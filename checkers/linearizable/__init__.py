"""Linearizability: a checker, and a call for whoever has a history and a model at hand.

`frontier` is the search on integer arrays, `encoding` and `transitions` make histories and models into integers,
`search` drives it, `witness` and `evidence` explain what it found.
"""

from checkers.linearizable.checker import Linearizable, check_ops
from checkers.linearizable.portfolio import warm_up

__all__ = ["Linearizable", "check_ops", "warm_up"]
