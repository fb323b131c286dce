"""Questions to a name server and its answers, as bytes (RFC 1035, AAAA: RFC 3596). Pure."""

from __future__ import annotations

import ipaddress
from typing import Final, Literal, TypeAlias

from splitbrain.cluster.errors import DiscoveryError

Type: TypeAlias = Literal["A", "AAAA", "PTR"]

_NUMBERS: Final[dict[Type, int]] = {"A": 1, "PTR": 12, "AAAA": 28}
_IN: Final = 1
_HEADER_BYTES: Final = 12
_TRUNCATED, _RECURSION, _RESPONSE = 0x0200, 0x0100, 0x8000
_NO_SUCH_NAME: Final = 3
_JUMPS_MAX: Final = 32
_RCODES: Final = {1: "format error", 2: "server failure", 4: "not implemented", 5: "refused"}


class TruncatedError(DiscoveryError):
    """The answer did not fit into a datagram: ask again over TCP."""


def question(number: int, name: str, kind: Type) -> bytes:
    """A question; `number` is its id, from 0 to 65535.

    Raises:
        DiscoveryError: the name cannot be one.
    """
    header = b"".join(field.to_bytes(2, "big") for field in (number, _RECURSION, 1, 0, 0, 0))
    return header + _labels(name) + _NUMBERS[kind].to_bytes(2, "big") + _IN.to_bytes(2, "big")


def reverse(address: str) -> str:
    """The name under which the name of an address is found (in-addr.arpa, ip6.arpa)."""
    return ipaddress.ip_address(address).reverse_pointer


def answers(data: bytes, number: int, name: str, kind: Type) -> list[str]:
    """What an answer says: addresses or names, each once, in its order; none if there is no such name or record.

    Raises:
        TruncatedError: see there.
        DiscoveryError: it is no answer to this question, says that the server failed, or makes no sense.
    """
    try:
        return _answers(data, number, name, kind)
    except (IndexError, UnicodeDecodeError, ValueError) as error:
        raise DiscoveryError(f"the answer about {name} makes no sense: {error}") from error


def _answers(data: bytes, number: int, name: str, kind: Type) -> list[str]:
    if len(data) < _HEADER_BYTES:
        raise ValueError("it has no header")
    got, flags, questions, records = (int.from_bytes(data[at : at + 2], "big") for at in range(0, 8, 2))
    if got != number or not flags & _RESPONSE:
        raise DiscoveryError(f"what came is no answer to the question about {name}")
    if flags & _TRUNCATED:
        raise TruncatedError(f"the answer about {name} is truncated")
    code = flags & 0xF
    if code == _NO_SUCH_NAME:
        return []
    if code:
        raise DiscoveryError(f"the name server answers {_RCODES.get(code, f'code {code}')} about {name}")
    at = _HEADER_BYTES
    for _ in range(questions):
        asked, at = _name(data, at)
        if asked.lower() != name.rstrip(".").lower():
            raise DiscoveryError(f"what came is about {asked}, not {name}")
        at += 4
    found: dict[str, None] = {}
    for _ in range(records):
        _, at = _name(data, at)
        if at + 10 > len(data):
            raise ValueError("it ends within a record")
        type_number, length = int.from_bytes(data[at : at + 2], "big"), int.from_bytes(data[at + 8 : at + 10], "big")
        at += 10
        if at + length > len(data):
            raise ValueError("it ends within a record")
        if type_number == _NUMBERS[kind]:
            found[_value(data, at, length, kind)] = None
        at += length
    return list(found)


def _value(data: bytes, at: int, length: int, kind: Type) -> str:
    if kind == "PTR":
        return _name(data, at)[0]
    raw = data[at : at + length]
    return str(ipaddress.IPv4Address(raw) if kind == "A" else ipaddress.IPv6Address(raw))


def _labels(name: str) -> bytes:
    try:
        parts = [part.encode("idna") if not part.isascii() else part.encode() for part in name.rstrip(".").split(".")]
    except UnicodeError:
        parts = [b""]
    if not all(0 < len(part) < 64 for part in parts) or sum(len(part) + 1 for part in parts) > 254:
        raise DiscoveryError(f"{name!r} cannot be the name of a host")
    return b"".join(bytes([len(part)]) + part for part in parts) + b"\0"


def _name(data: bytes, at: int) -> tuple[str, int]:
    """A name that begins at an offset, and the offset behind it. A pointer leads to a part that was written before."""
    parts: list[str] = []
    behind: int | None = None
    for _ in range(_JUMPS_MAX + 128):
        length = data[at]
        if length >= 0xC0:
            if behind is None:
                behind = at + 2
            at = (length & 0x3F) << 8 | data[at + 1]
        elif length:
            if at + 1 + length > len(data):
                raise ValueError("it ends within a name")
            parts.append(data[at + 1 : at + 1 + length].decode("ascii"))
            at += 1 + length
        else:
            return ".".join(parts), at + 1 if behind is None else behind
    raise ValueError("a name in it has no end")
