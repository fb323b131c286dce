"""What a client may ask of a node, and how a node refuses."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec


class DefiniteError(Exception):
    """The op certainly did not happen, and never will. Recorded as `fail`."""


class IndefiniteError(Exception):
    """Nobody knows whether the op happened. Recorded as `info`, as is every exception that is not a DefiniteError."""


class Answer(msgspec.Struct, frozen=True):
    """What a node answered, and the term in which it did, where the system tells."""

    value: Any = None
    term: int | None = None


class Session(Protocol):
    """A connection of one client to one node of a key-value-like system; it neither redirects nor fails over.

    Every method raises DefiniteError where the system refused, and IndefiniteError (or anything else) where nobody
    knows. Keys are strings without slashes; values are what JSON can carry.
    """

    async def read(self, key: str) -> Answer:
        """The value of a key, None if there is none; linearizable."""
        ...

    async def write(self, key: str, value: Any) -> Answer:
        """Set a key unconditionally."""
        ...

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        """Set a key if it holds `expected`; the answer's value tells whether it did. A missing key matches nothing."""
        ...

    async def create(self, key: str, value: Any) -> Answer:
        """Set a key if it does not exist; the answer's value tells whether this call created it."""
        ...

    async def add(self, collection: str, element: int) -> Answer:
        """Put an element into a collection."""
        ...

    async def elements(self, collection: str) -> Answer:
        """All elements of a collection, a list of whole numbers; linearizable."""
        ...

    async def close(self) -> None:
        """Drop the connection."""
        ...
