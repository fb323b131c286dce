"""Read committed, read atomic and causal consistency of registers, by one scan with vector clocks.

The levels are those of Biswas and Enea ("On the complexity of checking transactional consistency", OOPSLA 2019): there
is a total order of transactions, in which a session's are in its order and each comes after those that it read from.
If t3 read x from t1, and another transaction t2 also wrote x, then t2 is before t1

    read-committed    if t3 read from t2 before that read,
    read-atomic       if t3 read from t2, or t2 is before t3 in its session,
    causal            if t2 is before t3 by any path of sessions and reads.

The initial state is before everything. A read of what was aborted, overwritten in its own transaction, never written,
or written only later by the reader satisfies none of them.

How they are decided follows AWDIT (Møldrup and Pavlogiannis, "AWDIT: An Optimal Weak Database Isolation Tester", PLDI
2025, arXiv 2504.06975), in code of our own: only the pairs that the rule needs are derived, and the history satisfies
the level if these, sessions and reads have no cycle. The first two take O(n^1.5), the last O(n k) for k sessions.

These levels include sessions, and their read committed forbids to read something older than what was seen: in Elle's
lattice the nearest names are monotonic-atomic-view, read-atomic and causal-cerone, none of which knows sessions.
So what is `false` here rules out Elle's model only if the witness needs no order of a session, neither in its cycle
(`Weak.by_session`) nor in its premises. Models with sessions have the prefix "strong-session-", as Elle's have.
"""

from splitbrain.checkers.transactions.weak.judging import LEVELS, Level, Weak, judge_weak, judge_weak_all
from splitbrain.checkers.transactions.weak.shown import Shown, is_weak, weak_shown
from splitbrain.checkers.transactions.weak.verify import weak_problems
from splitbrain.checkers.transactions.weak.witness import weak_witness

__all__ = [
    "LEVELS",
    "Level",
    "Shown",
    "Weak",
    "is_weak",
    "judge_weak",
    "judge_weak_all",
    "weak_problems",
    "weak_shown",
    "weak_witness",
]
