"""A node that faults of every kind are measured with: `node.py NAME HOST PORT DATA PEER=HOST:PORT...`.

A client sends lines of JSON and gets one for each; "do" says what is asked:

    send: messages numbered from 0, a round of them, "to" a peer, by "packets" (UDP) or over a "stream" (TCP, kept open)
    got: the numbers of a "round" in the order in which they came, and how many came garbled
    breaks: how many streams to each peer broke
    write, append: 5,000 bytes with, 100 bytes without a sync; the names of the errors, and the file's size
    read: size and checksum of the file
    pid: its own
    time: what the wall clock shows
    work: computes for 0.2 s of its own time

Each start of it is a line in `telemetry.jsonl`. On SIGTERM it writes 7 bytes, and ends.
"""

import asyncio
import contextlib
import errno
import json
import os
import select
import signal
import sys
import time
import zlib
from collections.abc import Callable, Coroutine
from typing import Any


class Node(asyncio.DatagramProtocol):
    def __init__(self, name: str, data: str, peers: dict[str, tuple[str, int]]) -> None:
        self.name = name
        self.peers = peers
        self.rounds: dict[str, list[int]] = {}
        self.garbled = 0
        self.streams: dict[str, asyncio.StreamWriter] = {}
        self.broken = dict.fromkeys(peers, 0)
        self.tasks: set[asyncio.Task[None]] = set()
        self.packets: Any = None
        self.file = os.open(f"{data}/written", os.O_RDWR | os.O_CREAT | os.O_APPEND)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.packets = transport

    def datagram_received(self, data: bytes, addr: object) -> None:
        self.hear(data)

    def hear(self, message: bytes) -> None:
        words = message.split()
        if len(words) == 3 and set(words[2]) == {ord("x")} and words[1].isdigit():
            self.rounds.setdefault(words[0].decode(), []).append(int(words[1]))
        else:
            self.garbled += 1

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                if line.startswith(b"{"):
                    asked = json.loads(line)
                    answer = getattr(self, asked.pop("do"))(**asked)
                    writer.write(json.dumps(answer).encode() + b"\n")
                else:
                    self.hear(line)
        writer.close()

    def send(self, to: str, round: str, count: int, size: int, how: str) -> dict[str, Any]:
        messages = [f"{round} {number} ".ljust(size - 1, "x").encode() + b"\n" for number in range(count)]
        if how == "packets":
            for message in messages:
                self.packets.sendto(message, self.peers[to])
        else:
            self.begin(self.stream(to, messages))
        return {}

    def begin(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def stream(self, to: str, messages: list[bytes]) -> None:
        if to not in self.streams:
            try:
                reader, self.streams[to] = await asyncio.open_connection(*self.peers[to])
            except OSError:
                return
            self.begin(self.watch(to, reader, self.streams[to]))
        self.streams[to].writelines(messages)

    async def watch(self, to: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read()
        self.broken[to] += 1
        self.streams.pop(to, None)
        writer.close()

    def got(self, round: str) -> dict[str, Any]:
        return {"numbers": self.rounds.get(round, []), "garbled": self.garbled}

    def breaks(self) -> dict[str, int]:
        return self.broken

    def write(self) -> dict[str, Any]:
        wrote = error(lambda: self.put(5000))
        synced = error(lambda: os.fsync(self.file))
        return {"wrote": wrote, "synced": synced, "size": os.fstat(self.file).st_size}

    def append(self) -> dict[str, Any]:
        return {"wrote": error(lambda: self.put(100)), "size": os.fstat(self.file).st_size}

    def put(self, size: int) -> None:
        rest = os.urandom(size)
        while rest:
            rest = rest[os.write(self.file, rest) :]

    def read(self) -> dict[str, int]:
        size = os.fstat(self.file).st_size
        return {"size": size, "checksum": zlib.crc32(os.pread(self.file, size, 0))}

    def pid(self) -> dict[str, int]:
        return {"pid": os.getpid()}

    def time(self) -> dict[str, float]:
        return {"wall_s": time.time()}

    def work(self) -> dict[str, Any]:
        until = time.process_time() + 0.2
        while time.process_time() < until:
            pass
        return {}


def error(call: Callable[[], object]) -> str | None:
    """The error of a call by name, None if it has none."""
    try:
        call()
    except OSError as problem:
        return errno.errorcode[problem.errno or 0]
    return None


def stop(node: Node) -> None:
    """End in good order, which takes a moment."""
    select.select([], [], [], 0.05)
    with contextlib.suppress(OSError):
        node.put(7)
    print(f"{node.name} stops", flush=True)
    os._exit(0)


async def main(name: str, host: str, port: int, data: str, peers: dict[str, tuple[str, int]]) -> None:
    with open(f"{data}/telemetry.jsonl", "a") as telemetry:
        telemetry.write("start\n")
    node = Node(name, data, peers)
    await asyncio.get_running_loop().create_datagram_endpoint(lambda: node, (host, port))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop, node)
    server = await asyncio.start_server(node.serve, host, port)
    print(f"{name} listens", flush=True)
    async with server:
        await server.serve_forever()


def address(text: str) -> tuple[str, int]:
    host, port = text.rsplit(":", 1)
    return host, int(port)


if __name__ == "__main__":
    _, own_name, own_host, own_port, own_data, *others = sys.argv
    named = dict(other.split("=") for other in others)
    asyncio.run(main(own_name, own_host, int(own_port), own_data, {peer: address(at) for peer, at in named.items()}))
