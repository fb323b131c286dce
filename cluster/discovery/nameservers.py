"""Name servers over UDP, and over TCP if an answer is too long for a datagram."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from splitbrain.cluster.discovery.dnswire import TruncatedError, Type, answers, question
from splitbrain.cluster.errors import DiscoveryError
from splitbrain.cluster.runtime import Address, Rng

TIMEOUT_S: Final = 2.0
PORT: Final = 53
RESOLV_CONF: Final = "/etc/resolv.conf"
_NUMBER_MAX: Final = 65535


class _Datagrams(asyncio.DatagramProtocol):
    """Takes what comes back until something answers the question."""

    def __init__(self, number: int) -> None:
        self._number = number.to_bytes(2, "big")
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: Address) -> None:
        if data.startswith(self._number) and not self.answer.done():
            self.answer.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(exc)


class NameServers:
    """The servers that are asked, one after the other, until one answers; the next question goes to that one first.

    Args:
        servers: their addresses.
        rng: for the numbers of questions.
    """

    def __init__(self, servers: tuple[Address, ...], rng: Rng) -> None:
        self._servers = servers
        self._rng = rng

    async def resolve(self, name: str, kind: Type) -> list[str]:
        """See `splitbrain.cluster.discovery.dns.Resolver`."""
        problems: list[str] = []
        servers = self._servers
        for at, server in enumerate(servers):
            number = self._rng.between(0, _NUMBER_MAX)
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    found = await self._ask(server, number, name, kind)
            except TimeoutError:
                problems.append(f"{server[0]}:{server[1]} does not answer within {TIMEOUT_S:g} s")
            except (OSError, UnicodeError, DiscoveryError) as error:  # UnicodeError: the server's own name
                problems.append(f"{server[0]}:{server[1]}: {error}")
            else:
                self._servers = servers[at:] + servers[:at]
                return found
        raise DiscoveryError(f"{name} ({kind}): {'; '.join(problems) or 'there is no name server'}")

    async def _ask(self, server: Address, number: int, name: str, kind: Type) -> list[str]:
        asked = question(number, name, kind)
        try:
            return answers(await self._datagram(server, number, asked), number, name, kind)
        except TruncatedError:
            return answers(await self._stream(server, asked), number, name, kind)

    async def _datagram(self, server: Address, number: int, asked: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_datagram_endpoint(lambda: _Datagrams(number), remote_addr=server)
        try:
            transport.sendto(asked)
            return await protocol.answer
        finally:
            transport.close()

    async def _stream(self, server: Address, asked: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*server)
        try:
            writer.write(len(asked).to_bytes(2, "big") + asked)
            return await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
        except asyncio.IncompleteReadError as error:
            raise DiscoveryError("the connection was closed in place of an answer") from error
        finally:
            writer.close()


def of_this_machine(path: str = RESOLV_CONF) -> tuple[Address, ...]:
    """The name servers that a machine is configured for."""
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return ()
    words = [line.split() for line in lines]
    return tuple((each[1], PORT) for each in words if len(each) > 1 and each[0] == "nameserver")
