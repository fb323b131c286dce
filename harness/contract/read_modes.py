"""Read modes: what a system is asked to promise of its reads. A test has one of them, never both."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

ReadMode: TypeAlias = Literal["linearizable", "serializable"]

LINEARIZABLE: Final = "linearizable"
"""A read sees every op that ended before it began."""

SERIALIZABLE: Final = "serializable"
"""A read is answered by one node from what it has, and may be stale (etcd's word for it)."""
