"""Refuse an entity whose fields have other types than its record: once stored, it makes every list of its kind fail."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from splitbrain.cluster.errors import InvalidRequestError

R = TypeVar("R", bound=msgspec.Struct)


def checked(record: R) -> R:
    """The record, if its fields are of their types.

    Raises:
        InvalidRequestError: one is not, or cannot be stored; the message says which.
    """
    try:
        msgspec.convert(msgspec.to_builtins(record, builtin_types=(bytes,)), type(record))
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidRequestError(f"invalid_value: {type(record).__name__.lower()}: {error}.") from error
    return record
