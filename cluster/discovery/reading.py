"""What services answer, taken apart with an eye on answers that lie: no key is taken for granted, no type neither."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from splitbrain.cluster.errors import DiscoveryError
from splitbrain.cluster.runtime import Address

T = TypeVar("T", str, int, list[Any], dict[str, Any])


def field(value: Any, key: str, kind: type[T], what: str) -> T:
    """The value of a key, of this type.

    Raises:
        DiscoveryError: it is missing or of another type; the message begins with `what`.
    """
    found = cast(dict[str, Any], value).get(key) if isinstance(value, dict) else None
    if not isinstance(found, kind) or isinstance(found, bool):
        raise DiscoveryError(f"{what}: the answer has no {key} of type {kind.__name__}, but {value!r:.200}")
    return found


def a_list(value: Any, what: str) -> list[Any]:
    """An answer that is a list.

    Raises:
        DiscoveryError: it is none.
    """
    if not isinstance(value, list):
        raise DiscoveryError(f"{what}: the answer is no list, but {value!r:.200}")
    return cast(list[Any], value)


def an_address(host: str, port: int, what: str) -> Address:
    """An address that can be one.

    Raises:
        DiscoveryError: it cannot.
    """
    if not host or not 0 < port < 65536:
        raise DiscoveryError(f"{what}: {host}:{port} is no address of a node")
    return host, port
