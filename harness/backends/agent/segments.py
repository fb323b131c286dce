"""IPv4 packets and TCP segments as bytes: what a fault has to know of them, and what it makes of them."""

from __future__ import annotations

import socket
import struct
from typing import Final, NamedTuple

_TCP: Final = socket.IPPROTO_TCP
_IP_HEADER: Final = 20
_TCP_HEADER: Final = 20
_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10
_TTL: Final = 64
_MORE_FRAGMENTS: Final = 0x2000
_FRAGMENT_BYTES: Final = 1240
"""Of data: a multiple of 8; with the longest header the smallest packet that any link of today carries whole."""


def total_length(packet: bytes) -> int:
    """The length of a packet in bytes from its header: only its beginning may be available."""
    return int.from_bytes(packet[2:4], "big")


def flip_a_bit(packet: bytes, where: float) -> bytes:
    """The packet with one bit behind its IP header flipped, checksums left as they were.

    Args:
        packet: the whole packet.
        where: which bit, as a share in [0, 1) of all those behind the header.
    """
    header = _header_length(packet)
    bits = 8 * (len(packet) - header)
    if bits <= 0:
        return packet
    bit = int(where * bits)
    flipped = bytearray(packet)
    flipped[header + bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


def fragments(packet: bytes) -> list[bytes]:
    """A packet too large for its way in parts that fit, as a router would send them on (RFC 791, section 3.2)."""
    header = _header_length(packet)
    word = int.from_bytes(packet[6:8], "big")
    first, more = (word & 0x1FFF) * 8, word & _MORE_FRAGMENTS
    parts: list[bytes] = []
    for start in range(header, len(packet), _FRAGMENT_BYTES):
        data = packet[start : start + _FRAGMENT_BYTES]
        last = start + _FRAGMENT_BYTES >= len(packet)
        word = (first + start - header) // 8 | (more if last else _MORE_FRAGMENTS)
        length = struct.pack(">H", header + len(data))
        parts.append(packet[:2] + length + packet[4:6] + struct.pack(">H", word) + packet[8:header] + data)
    return parts


class Segment(NamedTuple):
    """What a TCP segment says of its connection, as its sender sees it.

    Attributes:
        connection: both addresses and both ports.
        opens: it is the first one (SYN).
        ends: it is an end that a connection has by itself (RST), or says nothing of what was received.
        sequence: of its first byte.
        length: in sequence numbers.
        acknowledged: what the sender expects next from the other side.
    """

    connection: bytes
    opens: bool
    ends: bool
    sequence: int
    length: int
    acknowledged: int


def segment_in(packet: bytes) -> Segment | None:
    """The TCP segment in a packet, None if it carries something else."""
    header = _header_length(packet)
    if packet[9] != _TCP or len(packet) < header + _TCP_HEADER:
        return None
    sequence, acknowledged, offset, flags = struct.unpack_from(">IIBB", packet, header + 4)
    data = total_length(packet) - header - (offset >> 4) * 4
    return Segment(
        connection=packet[12:20] + packet[header : header + 4],
        opens=bool(flags & _SYN),
        ends=bool(flags & _RST) or not flags & _ACK,
        sequence=sequence,
        length=data + bool(flags & _SYN) + bool(flags & _FIN),
        acknowledged=acknowledged,
    )


def reset_to_receiver(segment: Segment) -> bytes:
    """A packet that resets the connection in the segment's place.

    Its sequence number is the one that the receiver expects, unless something before it got lost: any other would be
    answered instead of believed (RFC 5961, section 3).
    """
    at = segment.connection
    return _reset(at[:4], at[4:8], at[8:10], at[10:12], segment.sequence, segment.acknowledged)


def reset_to_sender(segment: Segment) -> bytes:
    """A packet that resets the connection for the one who sent the segment, as if it came from the other side."""
    at = segment.connection
    after = (segment.sequence + segment.length) & 0xFFFF_FFFF
    return _reset(at[4:8], at[:4], at[10:12], at[8:10], segment.acknowledged, after)


def _reset(source: bytes, destination: bytes, port: bytes, to: bytes, sequence: int, acknowledged: int) -> bytes:
    segment = port + to + struct.pack(">IIBBHHH", sequence, acknowledged, 5 << 4, _RST | _ACK, 0, 0, 0)
    pseudo = source + destination + struct.pack(">HH", _TCP, len(segment))
    segment = segment[:16] + _checksum(pseudo + segment) + segment[18:]
    length = _IP_HEADER + len(segment)
    header = struct.pack(">BBHHHBBH", 0x45, 0, length, 0, 0x4000, _TTL, _TCP, 0) + source + destination
    return header[:10] + _checksum(header) + header[12:] + segment


def _checksum(data: bytes) -> bytes:
    """The Internet checksum (RFC 1071) of an even number of bytes."""
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack(">H", ~total & 0xFFFF)


def _header_length(packet: bytes) -> int:
    return (packet[0] & 0x0F) * 4
