"""All procedures of the table store, by the names that requests use, and what they take."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final

from splitbrain.cluster.tables.entities import procedures as of_entities
from splitbrain.cluster.tables.procedures import PROCEDURES, Procedure

KNOWN: Final[Mapping[str, Procedure]] = {**PROCEDURES, **of_entities.PROCEDURES}


def problem_of(procedure: str, arguments: Sequence[Any]) -> str | None:
    """Why a procedure cannot be carried out with these arguments, None if it can."""
    if procedure not in KNOWN:
        return f"there is no procedure {procedure!r}: it is one of {', '.join(KNOWN)}"
    try:
        bound: Any = inspect.signature(KNOWN[procedure]).bind(*arguments)
    except TypeError as error:
        return f"procedure {procedure}: {error}"
    if procedure == "while_open":
        inner = bound.arguments["procedure"]
        if inner not in PROCEDURES or not isinstance(bound.arguments["arguments"], list | tuple):
            return f"procedure {procedure} takes one of {', '.join(PROCEDURES)}, and its arguments"
        return problem_of(inner, bound.arguments["arguments"])
    if procedure in of_entities.PROCEDURES:
        problem = of_entities.problem_of(procedure, bound.arguments)
        return None if problem is None else f"procedure {procedure}: {problem}"
    if not all(isinstance(bound.arguments[name], str) for name in ("table", "key")):
        return f"procedure {procedure}: table and key are texts"
    return None
