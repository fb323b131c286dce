"""Errors of damaged files of a classic queue. It has no replicas, so the advice is not that of a node's log."""

from __future__ import annotations

from typing import Final

from splitbrain.cluster.errors import CorruptStorageError

ADVICE: Final = "Restore the queue's directory from a backup, or delete the queue."


def corrupt(name: str, offset: int, what: str) -> CorruptStorageError:
    """Something in the file `name` that had been durable is damaged, at `offset` or shortly behind it."""
    return CorruptStorageError(f"{name}, byte {offset}: {what}. {ADVICE}", name, offset, what)
