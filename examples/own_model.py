"""Two example models: an account with an overdraft, and a lease that may expire at any moment.

Give them to the checker by name, from the folder above this one; the parameter in parentheses is passed to the class:

    splitbrain check --model 'examples.own_model:Account(100)' history.jsonl
    splitbrain check --model examples.own_model:Lease history.jsonl

A model sees one op at a time: its function, the value of its invocation and its result, the value of its completion.
It returns the state afterwards, or that no correct object can give this result. Everything else (order, concurrency,
crashes) is done by the search.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from splitbrain import IMPOSSIBLE, UNKNOWN, NondeterministicModel, Special


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
        """The balance after an op; IMPOSSIBLE if a correct account would give another result.

        The result of an op that crashed is UNKNOWN; if the balance decides it, so does the model.
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
    """A lease with a fencing token; it ends when it is released, or at any moment without notice.

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
        """All possible results of an op: the lease may have expired before any op."""
        token, in_force = state
        for still in {in_force, False}:
            holds = still and value == token
            if f == "acquire":
                if not still and result in (UNKNOWN, token + 1):
                    yield (token + 1, True)
            elif result in (UNKNOWN, holds):
                yield (token, still and not (f == "release" and holds))
