"""What `node.py` is, on a simulated world: every message crosses a connection."""

from __future__ import annotations

import contextlib
import errno
import json
import zlib
from collections.abc import Sequence
from typing import Any

from splitbrain.harness.contract.embedding import NodeWorld
from splitbrain.harness.contract.nodes import NodeCommand


class SimNode:
    """A simulated node."""

    def __init__(self, command: NodeCommand, world: NodeWorld) -> None:
        _, host, port, _, *peers = command.argv[5:]
        self._world = world
        self._listen = (host, int(port))
        named = (peer.split("=") for peer in peers)
        self._peers = {name: (at.split(":")[0], int(at.split(":")[1])) for name, at in named}
        self._rounds: dict[str, list[int]] = {}
        self._connections: dict[str, Any] = {}
        self._broken = dict.fromkeys(self._peers, 0)
        self._file = world.disk.open("written")

    async def start(self) -> None:
        with contextlib.suppress(OSError):
            await self._world.disk.sync_names()
        await self._world.network.listen(self._listen, self._serve)
        self._world.stops(self._stop)

    async def _stop(self) -> None:
        await self._world.clock.sleep(50_000_000)
        self._put(7)

    async def _serve(self, connection: Any) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                asked = json.loads(await connection.receive())
                if "do" in asked:
                    answer = await getattr(self, "_" + asked.pop("do"))(**asked)
                    connection.send(json.dumps(answer).encode())
                else:
                    self._rounds.setdefault(asked["round"], []).append(asked["number"])

    async def _send(self, to: str, round: str, count: int, size: int, how: str) -> dict[str, Any]:
        messages = [json.dumps({"round": round, "number": number}).ljust(size).encode() for number in range(count)]
        self._world.spawn(self._stream(to, messages), "send")
        return {}

    async def _stream(self, to: str, messages: Sequence[bytes]) -> None:
        if to not in self._connections:
            try:
                self._connections[to] = await self._world.network.connect(self._peers[to])
            except ConnectionError:
                return
            self._world.spawn(self._watch(to, self._connections[to]), "watch")
        for message in messages:
            self._connections[to].send(message)

    async def _watch(self, to: str, connection: Any) -> None:
        with contextlib.suppress(ConnectionError):
            await connection.receive()
        self._broken[to] += 1
        del self._connections[to]

    async def _got(self, round: str) -> dict[str, Any]:
        return {"numbers": self._rounds.get(round, []), "garbled": 0}

    async def _breaks(self) -> dict[str, int]:
        return self._broken

    async def _write(self) -> dict[str, Any]:
        wrote, synced = self._put(5000), None
        try:
            await self._file.sync()
        except OSError as problem:
            synced = errno.errorcode[problem.errno or 0]
        return {"wrote": wrote, "synced": synced, "size": self._size()}

    async def _append(self) -> dict[str, Any]:
        return {"wrote": self._put(100), "size": self._size()}

    def _put(self, size: int) -> str | None:
        data = bytes(self._world.rng.between(1, 255) for _ in range(size))
        try:
            self._file.append(data)
        except OSError as problem:
            return errno.errorcode[problem.errno or 0]
        return None

    async def _read(self) -> dict[str, int]:
        return {"size": self._size(), "checksum": zlib.crc32(self._world.disk.read("written") or b"")}

    def _size(self) -> int:
        with contextlib.suppress(OSError):
            return len(self._world.disk.read("written") or b"")
        return 0

    async def _time(self) -> dict[str, float]:
        return {"wall_s": self._world.clock.wall_ns() / 1e9}

    async def _work(self) -> dict[str, Any]:
        for _ in range(400):
            await self._world.clock.sleep(1)
        return {}
