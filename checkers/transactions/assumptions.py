"""What may be assumed of registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Assumptions:
    """What may be assumed of registers beyond what follows from the models; off unless asked for.

    Attributes:
        sequential_keys: each key is sequentially consistent: a process sees its versions in order.
        linearizable_keys: each key is linearizable: real time orders its versions.
        wfr_keys: a transaction that reads a key and writes it overwrites what it read.
        transaction_order: places of transactions in an order that the system says it used, by the index of the op that
            completed each; their writes of a key are in that order.
    """

    sequential_keys: bool = False
    linearizable_keys: bool = False
    wfr_keys: bool = False
    transaction_order: Mapping[int, int] | None = None

    @property
    def any(self) -> bool:
        """Whether anything is assumed."""
        return self.sequential_keys or self.linearizable_keys or self.wfr_keys or bool(self.transaction_order)
