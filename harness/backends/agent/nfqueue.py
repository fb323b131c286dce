"""Packets that the kernel hands over to be judged: nfnetlink_queue over a raw netlink socket.

A firewall rule (`iptables ... -j NFQUEUE --queue-num N --queue-bypass`) sends packets into a queue, and the owner of
the queue gives each packet a verdict. The messages are those of linux/netfilter/nfnetlink_queue.h:

    struct nlmsghdr    u32 length, u16 type, u16 flags, u32 sequence, u32 port     (host byte order)
    struct nfgenmsg    u8 family, u8 version, be16 queue number
    attributes         u16 length, u16 type, value, padded to a multiple of 4

A queue belongs to the socket that bound it, and the socket to the network namespace in which it was made: this process
may move on. When the socket is closed the kernel drops what waits, and from then on `--queue-bypass` lets packets pass.

Segments are requested one by one (no NFQA_CFG_F_GSO): data that a network card would segment arrives as packets of at
most the interface's MTU, with their checksums filled in, so that a fault hits packets as on a wire.
NFQA_CFG_F_FAIL_OPEN is not requested either: a full queue drops, as a router's does, instead of letting packets
overtake those that are held.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from typing import Final, NamedTuple

_NETLINK_NETFILTER: Final = 12
_SOL_NETLINK: Final = 270
_NETLINK_NO_ENOBUFS: Final = 5
_SO_RCVBUFFORCE: Final = 33

_NLMSG_ERROR: Final = 2
_NLM_F_REQUEST: Final = 1
_NLM_F_ACK: Final = 4

_SUBSYSTEM: Final = 3 << 8  # NFNL_SUBSYS_QUEUE
_PACKET: Final = _SUBSYSTEM | 0
_VERDICT: Final = _SUBSYSTEM | 1
_CONFIG: Final = _SUBSYSTEM | 2

_CFG_CMD, _CFG_PARAMS, _CFG_QUEUE_MAXLEN = 1, 2, 3
_CMD_BIND: Final = 1
_COPY_PACKET: Final = 2
_A_PACKET_HDR, _A_VERDICT_HDR, _A_PAYLOAD = 1, 2, 10

_DROP, _ACCEPT = 0, 1

_HEADER: Final = struct.Struct("=IHHIIBBBB")  # nlmsghdr and nfgenmsg, the queue number in two bytes
_ATTRIBUTE: Final = struct.Struct("=HH")
_NUMBER: Final = struct.Struct(">I")
_START: Final = _HEADER.size
_ATTRIBUTE_TYPE: Final = 0x3FFF  # without the flags for nesting and byte order

_WHOLE: Final = 0xFFFF  # bytes of each packet
_READ_AT_ONCE: Final = 256
_SENT_AT_ONCE: Final = 64
_BUFFER_BYTES: Final = 8 << 20
_ACKNOWLEDGEMENT_S: Final = 2.0


class Packet(NamedTuple):
    """A packet that waits for its verdict: the kernel's number for it, and all of it from the IP header on."""

    number: int
    content: bytes


class Queue:
    """One queue of the network namespace in which it is made. Verdicts are gathered until `flush`.

    Args:
        number: the queue's number, 0 to 65535, unique in the namespace.
        packets_max: how many may wait in the kernel; more are dropped.

    Raises:
        OSError: the kernel refuses; EPERM or EBUSY also where the number is taken.
    """

    def __init__(self, number: int, packets_max: int) -> None:
        self.number = number
        self._verdicts = tuple(self._verdict(verdict) for verdict in (_DROP, _ACCEPT))
        self._out: list[bytes] = []
        self._buffer = memoryview(bytearray(_WHOLE + 4096))
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER)
        try:
            self._socket.bind((0, 0))
            self._enlarge_buffer()
            self._configure(packets_max)
        except BaseException:
            self._socket.close()
            raise
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """The socket's descriptor: readable when packets wait."""
        return self._socket.fileno()

    def close(self) -> None:
        """Give the queue up. What still waits is dropped."""
        self._socket.close()

    def read(self) -> list[Packet]:
        """The packets that have come in, in order, up to a few hundred; empty if there are none."""
        packets: list[Packet] = []
        with contextlib.suppress(BlockingIOError):
            while len(packets) < _READ_AT_ONCE:
                size = self._socket.recv_into(self._buffer)
                packet = _packet_in(self._buffer, size)
                if packet is not None:
                    packets.append(packet)
        return packets

    # --- verdicts -----------------------------------------------------------------------------------------------------

    def accept(self, number: int) -> None:
        """Let a packet pass."""
        self._judge(_ACCEPT, number)

    def drop(self, number: int) -> None:
        """Make a packet vanish."""
        self._judge(_DROP, number)

    def flush(self) -> None:
        """Hand the verdicts to the kernel. One for a packet that is no longer there does no harm."""
        out, self._out = self._out, []
        for start in range(0, len(out), _SENT_AT_ONCE):
            self._socket.send(b"".join(out[start : start + _SENT_AT_ONCE]))

    def _judge(self, verdict: int, number: int) -> None:
        self._out.append(self._verdicts[verdict] + _NUMBER.pack(number))

    # --- setting up ---------------------------------------------------------------------------------------------------

    def _enlarge_buffer(self) -> None:
        """Room for bursts. A plain user's namespace gets no more than net.core.rmem_max."""
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        except PermissionError:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        # What finds no room is counted by the kernel; without this the next read would fail as well (ENOBUFS).
        self._socket.setsockopt(_SOL_NETLINK, _NETLINK_NO_ENOBUFS, 1)

    def _configure(self, packets_max: int) -> None:
        attributes = (
            struct.pack(">BBH", _CMD_BIND, 0, 0),
            struct.pack(">IB", _WHOLE, _COPY_PACKET),
            _NUMBER.pack(packets_max),
        )
        kinds = (_CFG_CMD, _CFG_PARAMS, _CFG_QUEUE_MAXLEN)
        body = b"".join(
            _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)
            for kind, value in zip(kinds, attributes, strict=True)
        )
        self._socket.settimeout(_ACKNOWLEDGEMENT_S)
        self._socket.send(self._message(_CONFIG, body, _NLM_F_REQUEST | _NLM_F_ACK))
        answer = self._socket.recv(4096)
        kind = _HEADER.unpack_from(answer)[1]
        if kind != _NLMSG_ERROR:
            raise OSError(errno.EPROTO, f"nfnetlink_queue answered with a message of type {kind}")
        problem = -struct.unpack_from("=i", answer, 16)[0]
        if problem:
            raise OSError(problem, "nfnetlink_queue")

    def _verdict(self, verdict: int) -> bytes:
        """A message with a verdict, all but the packet's number."""
        header = _ATTRIBUTE.pack(_ATTRIBUTE.size + 8, _A_VERDICT_HDR) + _NUMBER.pack(verdict)
        return self._message(_VERDICT, header + bytes(4), _NLM_F_REQUEST)[:-4]

    def _message(self, kind: int, body: bytes, flags: int) -> bytes:
        high, low = divmod(self.number, 256)
        return _HEADER.pack(_START + len(body), kind, flags, 0, 0, socket.AF_UNSPEC, 0, high, low) + body


def _packet_in(message: memoryview, size: int) -> Packet | None:
    """The packet that a message carries; None for an answer to a verdict."""
    length, kind = struct.unpack_from("=IH", message)
    if kind != _PACKET:
        return None
    end, at, number = min(length, size), _START, -1
    while at + _ATTRIBUTE.size <= end:
        attribute_length, attribute = _ATTRIBUTE.unpack_from(message, at)
        attribute &= _ATTRIBUTE_TYPE
        if attribute == _A_PACKET_HDR:
            (number,) = _NUMBER.unpack_from(message, at + _ATTRIBUTE.size)
        elif attribute == _A_PAYLOAD:
            return Packet(number, bytes(message[at + _ATTRIBUTE.size : at + attribute_length]))
        at += max(_ATTRIBUTE.size, attribute_length + -attribute_length % 4)
    return Packet(number, b"") if number >= 0 else None
