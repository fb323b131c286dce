"""What services answer, taken apart with an eye on answers that lie: no key is taken for granted, no type neither."""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Final, TypeVar, cast

import msgspec

from splitbrain.cluster.errors import DiscoveryError
from splitbrain.cluster.runtime import Address

T = TypeVar("T", str, int, list[Any], dict[str, Any])

_LABEL: Final = re.compile(r"[A-Za-z0-9_-]{1,63}")
_NAME_MAX: Final = 253
_DIGITS_MAX: Final = 18


def json_of(content: bytes, what: str) -> Any:
    """What JSON says.

    Raises:
        DiscoveryError: it is no JSON, or nested too deeply; the message begins with `what`.
    """
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = content[:200].decode(errors="replace").strip()
        raise DiscoveryError(f"{what}: the answer is no JSON that can be read ({error}): {text}") from error


def field(value: Any, key: str, kind: type[T], what: str) -> T:
    """The value of a key, of this type.

    Raises:
        DiscoveryError: it is missing or of another type; the message begins with `what`.
    """
    found = cast(dict[str, Any], value).get(key) if isinstance(value, dict) else None
    if not isinstance(found, kind) or isinstance(found, bool):
        raise DiscoveryError(f"{what}: the answer has no {key} of type {kind.__name__}, but {_shown(value)}")
    return found


def a_number(value: Any, key: str, what: str) -> int:
    """The value of a key, which is a whole number, or one as text, as proto3 writes those of 64 bits.

    Raises:
        DiscoveryError: it is none; the message begins with `what`.
    """
    found = cast(dict[str, Any], value).get(key) if isinstance(value, dict) else None
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    text = found.removeprefix("-") if isinstance(found, str) else ""
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
        raise DiscoveryError(f"{what}: the answer has no number {key}, but {_shown(value)}")
    return int(cast(str, found))


def a_list(value: Any, what: str) -> list[Any]:
    """An answer that is a list.

    Raises:
        DiscoveryError: it is none.
    """
    if not isinstance(value, list):
        raise DiscoveryError(f"{what}: the answer is no list, but {_shown(value)}")
    return cast(list[Any], value)


def an_address(host: str, port: int, what: str) -> Address:
    """An address that can be one.

    Raises:
        DiscoveryError: it cannot.
    """
    if not is_host(host) or not 0 < port < 65536:
        raise DiscoveryError(f"{what}: {host[:_NAME_MAX]!r} and port {_shown(port)} is no address of a node")
    return host, port


def is_host(host: str) -> bool:
    """Whether it can be the address of a host or its name: the operating system is not asked about anything else."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return True
    try:
        name = host.encode("idna").decode()
    except UnicodeError:
        return False
    return len(name) <= _NAME_MAX and all(_LABEL.fullmatch(label) for label in name.removesuffix(".").split("."))


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.200}"
    except (RecursionError, ValueError):  # nested too deeply, a number with too many digits
        return f"what is a {type(value).__name__}"
