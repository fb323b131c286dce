"""Where what passes lives: in one life of a node, on one connection of that. The names of these.

n1#life7         the life 7 of node n1: where a transient queue lives
n1#life7.3.2     an owner of queues: the second one that a client was on the third connection of that life
"""

from __future__ import annotations

from typing import Final

from splitbrain.cluster.members import SEPARATOR
from splitbrain.cluster.wire import ClientAddress

_LIFE: Final = f"{SEPARATOR}life"
"""No name of a node has the separator in it, and ids of members have numbers alone behind it."""


def place_of(client: ClientAddress) -> str:
    """The life of the node that a client is connected to."""
    return f"{client.node}{_LIFE}{client.life}"


def owner_of(client: ClientAddress, count: int) -> str:
    """What a client calls itself as the owner of queues, for the `count`th time on this connection."""
    return f"{place_of(client)}.{client.number}.{count}"


def life_of(place: str) -> tuple[str, int] | None:
    """Node and life; None for the name of a node alone."""
    node, separator, life = place.rpartition(_LIFE)
    return (node, int(life)) if separator and _is_number(life) else None


def connection_of(owner: str) -> ClientAddress | None:
    """The connection that an owner is on; None if it is named otherwise."""
    place, *numbers = owner.rsplit(".", 2)
    found = life_of(place)
    if found is None or len(numbers) != 2 or not all(map(_is_number, numbers)):
        return None
    return ClientAddress(*found, int(numbers[0]))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
