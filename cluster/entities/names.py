"""Names of entities as names of tree nodes, and arguments in the one encoding in which they are compared.

Registered functions get names that are encoded already: what they may call is checked, and encoding is not on that
list (`splitbrain.cluster.tree.determinism`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from splitbrain.cluster.errors import InvalidRequestError
from splitbrain.cluster.tree import MAX_NAME_LENGTH, symbol, text_name

EMPTY: Final = symbol("empty")
"""The node of an entity whose name is empty, as a routing key may be: a node's name is not."""

_encoder = msgspec.msgpack.Encoder(order="deterministic")


@lru_cache(maxsize=65_536)
def node_name(text: str) -> str:
    """The name of the tree node of an entity of this name.

    Raises:
        InvalidRequestError: it is too long.
    """
    name = text_name(text) if text else EMPTY
    if len(text) > MAX_NAME_LENGTH or len(name) > 3 * MAX_NAME_LENGTH:
        raise InvalidRequestError(f"invalid_name: {text[:40]!r}...: a name has at most {MAX_NAME_LENGTH} characters.")
    return name


def encoded_arguments(arguments: Mapping[str, Any]) -> bytes:
    """Arguments of a declaration or a binding as they are stored: equal bytes for equal values of equal types.

    Raises:
        InvalidRequestError: msgpack cannot carry them.
    """
    try:
        return _encoder.encode(dict(arguments))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidRequestError(f"invalid_arguments: {error}.") from error


def decoded_arguments(encoded: bytes) -> dict[str, Any]:
    """The inverse."""
    return msgspec.msgpack.decode(encoded, type=dict[str, Any])
