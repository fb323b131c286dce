"""What ops on topologies say and answer: entities as lists of names, and no other values."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from splitbrain.results.calls import cell, shaped
from splitbrain.results.errors import HistoryFormatError, UsageError

_Name: TypeAlias = str | int | bool | None
_Entity: TypeAlias = Annotated[list[_Name], msgspec.Meta(min_length=2)]

_LENGTHS: Final = {
    "permission": (3,),
    "policy": (3,),
    "queue": (3,),
    "exclusive": (4,),
    "exchange": (4, 5),
    "binding": (7,),
}
"""Of the kinds of which more than the name is looked at."""


class _Projected(msgspec.Struct, frozen=True):
    """What a member shows of its tree, of its tables, and where it leads messages."""

    tree: list[_Entity]
    tables: list[_Entity]
    routes: list[tuple[_Name, _Name, str, list[_Name]]]


_ASKED: Final[dict[str, Any]] = {
    **dict.fromkeys(("declare", "bind", "delete", "unbind"), _Entity),
    "claim": tuple[_Name, _Name],
}
_ANSWERED: Final[dict[str, Any]] = {
    "look": list[_Entity],
    "project": _Projected | None,
    "claim": str | None,
    "disconnect": str | None,
    "own": tuple[_Name, list[tuple[_Name, _Name]]] | None,
}


def asked(table: pa.Table, f: str, row: int) -> Any:
    """What an op is about.

    Raises:
        HistoryFormatError: it is no entity.
    """
    value = cell(table, "value", row)
    if f in _ASKED:
        shaped(table, row, _ASKED[f])
        if f != "claim":
            _refuse_other_lengths(table, row, [value])
    return value


def answered(table: pa.Table, f: str, row: int) -> Any:
    """What was answered, None by functions whose answers say nothing.

    Raises:
        HistoryFormatError: it is no answer of that function.
    """
    if f not in _ANSWERED:
        return None
    shaped(table, row, _ANSWERED[f])
    value = cell(table, "value", row)
    if f == "look":
        _refuse_other_lengths(table, row, value)
    elif f == "project" and value is not None:
        _refuse_other_lengths(table, row, [*value["tree"], *value["tables"]])
    return value


def entities(given: Any) -> list[list[Any]]:
    """The entities of the option `again`.

    Raises:
        UsageError: it has others.
    """
    try:
        return msgspec.convert(given, list[_Entity])
    except msgspec.ValidationError as error:
        raise UsageError(f"checker topology: again must be a list of entities ({error}).") from None


def _refuse_other_lengths(table: pa.Table, row: int, entities: list[list[Any]]) -> None:
    for entity in entities:
        lengths = _LENGTHS.get(entity[0])
        if lengths is not None and len(entity) not in lengths:
            index = cell(table, "index", row)
            raise HistoryFormatError(
                "history", f"op {index}: this is no {entity[0]}, it has other parts: {entity!r:.80}."
            )
