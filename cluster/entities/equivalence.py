"""Whether an entity that is there is the one that a client declares (DB-4)."""

from __future__ import annotations

import msgspec

from splitbrain.cluster.entities.errors import PRECONDITION_FAILED, PreconditionFailedError
from splitbrain.cluster.entities.names import decoded_arguments
from splitbrain.cluster.entities.records import Exchange, Queue

_IDENTITY = ("vhost", "name", "node", "owner")


def check_equivalent(kind: str, wanted: Exchange | Queue, there: Exchange | Queue) -> None:
    """Nothing if they are equivalent: equal but for the node that a queue lives on, arguments with their types.

    Raises:
        PreconditionFailedError: they differ; the message says in what.
    """
    for field in msgspec.structs.fields(wanted):
        given, found = getattr(wanted, field.name), getattr(there, field.name)
        if field.name not in _IDENTITY and given != found:
            if field.name == "arguments":
                given, found = decoded_arguments(given), decoded_arguments(found)
            raise PreconditionFailedError(
                f"{PRECONDITION_FAILED}: {kind} {wanted.name!r} in vhost {wanted.vhost!r}: {field.name} is {found!r}, "
                f"not {given!r}."
            )
