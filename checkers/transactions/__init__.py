"""Isolation of transactions: which anomalies a history shows, and which consistency models it rules out.

The way of a history: `columns` makes integer columns of it; `lists`, `registers` or `predicates` infer dependencies;
`order` adds the order of processes or real time; `cycles` looks for cycles; `judging` compares with the models in
`models`; `witness` says in sentences what was found, and `verify` proves it again from the history alone.
"""

from splitbrain.checkers.transactions.checker import ClosedPredicate, ListAppend, Predicates, RwRegister

__all__ = ["ClosedPredicate", "ListAppend", "Predicates", "RwRegister"]
