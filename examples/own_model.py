"""Two models of one's own: an account with an overdraft, and a lease that may run out at any moment.

Give them to the checker by name, from the folder above this one; what is in parentheses is handed to the class:

    splitbrain check --model 'examples.own_model:Account(100)' history.jsonl
    splitbrain check --model examples.own_model:Lease history.jsonl

A model sees one op at a time: its function, the value of its invocation and its result, the value of its completion.
It answers what the object is like afterwards, or that no correct object can have given this result. Everything else
(who waited for whom, what was under way at once, what crashed) is the search's business.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from splitbrain.checkers.models import IMPOSSIBLE, UNKNOWN, NondeterministicModel, Special


class Account:
    """An account: deposit and withdraw an amount, ask for the balance.

    `withdraw` returns true, or false where it was refused: the balance would have gone below the overdraft.
    """

    name = "account"
    fs = frozenset({"deposit", "withdraw", "balance"})

    def __init__(self, overdraft: Any = 0) -> None:
        self._overdraft = overdraft

    def init(self) -> Hashable:
        """Nothing in it."""
        return 0

    def step(self, state: Any, f: str, value: Any, result: Any) -> Hashable | Special:
        """The balance after an op; IMPOSSIBLE if a correct account would have answered otherwise.

        Nobody knows the result of an op that crashed, UNKNOWN: but where the balance decides it, so does the model.
        """
        if f == "deposit":
            return state + value
        if f == "balance":
            return state if result is UNKNOWN or result == state else IMPOSSIBLE
        paid = state - value >= -self._overdraft
        if result is not UNKNOWN and result != paid:
            return IMPOSSIBLE
        return state - value if paid else state

    def observes(self, f: str, value: Any, result: Any) -> bool:
        """Asking for the balance changes nothing, nor does a withdrawal that was seen to be refused."""
        return f == "balance" or result is False


class Lease(NondeterministicModel):
    """A lease with a fencing token; it ends when it is given back, or at any moment, and nobody is told.

    `acquire` returns the token, 1 for the first lease and one more for each that follows. `holds TOKEN` returns whether
    that lease is still in force, and `release TOKEN` ends it and returns whether it had been. What must never be: a
    token that holds after a later one was given.
    """

    name = "lease"
    fs = frozenset({"acquire", "holds", "release"})

    def first(self) -> Iterable[Hashable]:
        """The state is the last token, and whether its lease is in force."""
        return [(0, False)]

    def steps(self, state: Any, f: str, value: Any, result: Any) -> Iterable[Hashable]:
        """All that may come of an op: the lease may have run out before it, whatever it was."""
        token, in_force = state
        for still in {in_force, False}:
            holds = still and value == token
            if f == "acquire":
                if not still and result in (UNKNOWN, token + 1):
                    yield (token + 1, True)
            elif result in (UNKNOWN, holds):
                yield (token, still and not (f == "release" and holds))
