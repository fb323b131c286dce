"""What an entity refuses. Nothing was changed then: each is a `RefusedError`.

    RefusedError
    └── EntityError
        ├── EntityNotFoundError       404 in AMQP
        ├── EntityExistsError
        ├── PreconditionFailedError   406
        ├── ResourceLockedError       405
        └── AccessRefusedError        403

A registered function cannot raise them: it aborts its transaction with `[reason, kind, name, detail]`, and
`error_of_abort` gives the error that this stands for.
"""

from __future__ import annotations

from typing import Any, Final

from splitbrain.cluster.errors import RefusedError


class EntityError(RefusedError):
    """An entity refuses what was asked. The message names the entity.

    Attributes:
        reason: with which its transaction was aborted; empty where a caller's part of an operation refuses.
    """

    reason: tuple[str, ...] = ()


class EntityNotFoundError(EntityError):
    """There is no such entity, or not the one that it needs. Declare that one first."""


class EntityExistsError(EntityError):
    """There is one of that name already."""


class PreconditionFailedError(EntityError):
    """There is one of that name that differs, or is in use. Delete it first, or declare it as it is."""


class ResourceLockedError(EntityError):
    """The queue is exclusive to another connection. Take another name."""


class AccessRefusedError(EntityError):
    """The name is reserved."""


NOT_FOUND: Final = "not_found"
EXISTS: Final = "exists"
PRECONDITION_FAILED: Final = "precondition_failed"
RESOURCE_LOCKED: Final = "resource_locked"
CHANGED: Final = "changed"
"""Between a read and the write that followed from it; the caller reads again."""

_ERRORS: Final[dict[str, tuple[type[EntityError], str]]] = {
    NOT_FOUND: (EntityNotFoundError, "there is no such entity"),
    EXISTS: (EntityExistsError, "it exists already"),
    PRECONDITION_FAILED: (PreconditionFailedError, "it is not as was asked for"),
    RESOURCE_LOCKED: (ResourceLockedError, "it is exclusive to another connection"),
    CHANGED: (PreconditionFailedError, "it changed meanwhile"),
}


def error_of_abort(reason: Any, term: int | None = None) -> EntityError | None:
    """The error that the reason of an aborted transaction stands for; None if it is no reason of an entity."""
    match reason:
        case [str(code), str(kind), str(name), str(detail)] if code in _ERRORS:
            made, words = _ERRORS[code]
            error = made(f"{code}: {kind} {name!r}: {detail or words}.", term)
            error.reason = (code, kind, name, detail)
            return error
        case _:
            return None
