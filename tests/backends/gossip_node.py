"""A node to test backends with: it tells each peer of itself all the time and counts what it hears from them.

`gossip_node.py udp|tcp NAME HOST PORT PEER=HOST:PORT...`. Over UDP a beat is a datagram, so that links are seen packet
by packet; over TCP it goes out on one connection per peer, dialled again as soon as it breaks. A client that connects
gets one line of JSON: beats heard by peer, the pid, and (TCP) how often each peer was dialled.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys

BEAT_S = 0.02


class Gossip(asyncio.DatagramProtocol):
    def __init__(self, name: str) -> None:
        self.name = name
        self.heard: dict[str, int] = {}
        self.dialled: dict[str, int] = {}

    def datagram_received(self, data: bytes, addr: object) -> None:
        self.hear(data.decode())

    def hear(self, peer: str) -> None:
        self.heard[peer] = self.heard.get(peer, 0) + 1

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            report = {"heard": self.heard, "pid": os.getpid(), "dialled": self.dialled}
            writer.write(json.dumps(report).encode() + b"\n")
            while line := await reader.readline():
                self.hear(line.decode().strip())
        writer.close()

    async def beat_tcp(self, peer: str, host: str, port: int) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(host, port)
                self.dialled[peer] = self.dialled.get(peer, 0) + 1
                ended = asyncio.create_task(reader.read())
                while not ended.done():
                    writer.write(self.name.encode() + b"\n")
                    await asyncio.sleep(BEAT_S)
                    if ended.done() or reader.at_eof():
                        break
                writer.close()
                await ended

    async def beat_udp(self, transport: asyncio.DatagramTransport, host: str, port: int) -> None:
        while True:
            transport.sendto(self.name.encode(), (host, port))
            await asyncio.sleep(BEAT_S)


async def main(transport: str, name: str, host: str, port: int, peers: dict[str, tuple[str, int]]) -> None:
    loop = asyncio.get_running_loop()
    gossip = Gossip(name)
    server = await asyncio.start_server(gossip.serve, host, port)
    print(f"{name} listens", flush=True)
    if transport == "udp":
        datagrams, _ = await loop.create_datagram_endpoint(lambda: gossip, (host, port))
        beats = [gossip.beat_udp(datagrams, *address) for address in peers.values()]
    else:
        beats = [gossip.beat_tcp(peer, *address) for peer, address in peers.items()]
    loop.add_signal_handler(signal.SIGTERM, lambda: (print(f"{name} stops", flush=True), os._exit(0)))
    async with server:
        await asyncio.gather(*beats)


def _address(text: str) -> tuple[str, int]:
    host, port = text.rsplit(":", 1)
    return host, int(port)


if __name__ == "__main__":
    _, kind, own_name, own_host, own_port, *others = sys.argv
    named = dict(other.split("=") for other in others)
    asyncio.run(main(kind, own_name, own_host, int(own_port), {peer: _address(text) for peer, text in named.items()}))
