"""Linearizability: a checker, and a function for a history and a model.

`ops` reads a history, `transitions` makes a model into integers, `deciders` answer where that takes no search. Else two
searches take turns (`portfolio`). One follows all explanations at once, event by event: `search` drives the machine of
`frontier`, `program`, `configurations`, `expansion`, `advance` and `machine`. The other follows one explanation at a
time: `depth_first` drives `backtracking` and `dead_ends`. `evidence`, `witness` and `paths` explain a violation, and
`segments` cuts a long history into parts that are judged apart.
"""

from splitbrain.checkers.linearizable.checker import Linearizable, check_ops
from splitbrain.checkers.linearizable.portfolio import warm_up, warm_up_if_kept

__all__ = ["Linearizable", "check_ops", "warm_up", "warm_up_if_kept"]
