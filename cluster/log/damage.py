"""Errors of damaged files. Each names the file, the byte and what to do."""

from __future__ import annotations

from typing import Final

from splitbrain.cluster.errors import CorruptStorageError, StorageError

ADVICE: Final = "Replace this node, or restore its data directory."


def corrupt(name: str, offset: int, what: str) -> CorruptStorageError:
    """Something in the file `name` that had been durable is damaged, at `offset` or shortly behind it."""
    return CorruptStorageError(f"{name}, byte {offset}: {what}. {ADVICE}", name, offset, what)


def require_version(name: str, found: int, known: int) -> None:
    """Refuse a file of another format. Every format has its version at byte 4.

    Raises:
        CorruptStorageError: no version ever had that number: a loss of power may leave zeros behind the first bytes.
        StorageError: the file is of another version.
    """
    if found == 0:
        raise corrupt(name, 4, "the beginning is damaged: no format has the number 0")
    if found != known:
        raise StorageError(
            f"{name}, byte 4: the file has format {found}, this node reads {known}. Start it with the version that "
            f"wrote the file; if that was this one, the file is damaged: replace this node."
        )
