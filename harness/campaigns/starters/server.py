"""A server in plain asyncio: the first node keeps the values in a file, the others ask it.

python -m splitbrain.harness.campaigns.starters.server --node n1 --listen 127.0.0.1:7001 --data FOLDER --peer n2=...
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import zlib
from collections.abc import Sequence
from typing import Any

PEER_TIMEOUT_S = 3.0


class Values:
    """All values, in memory and in a file that is replaced as a whole: after a crash it is the former or the new one.

    Attributes:
        held: the values by key; those that were set last may not be durable yet.
    """

    def __init__(self, folder: str) -> None:
        self.held: dict[str, Any] = {}
        self._folder = folder
        self._path = os.path.join(folder, "values")
        self._changed = False
        self._saving: asyncio.Task[None] | None = None
        if os.path.exists(self._path):
            with open(self._path, encoding="utf-8", errors="replace") as file:
                checksum, _, text = file.read().partition(" ")
            if checksum != _checksum(text):
                raise SystemExit("the values are damaged")  # better than to serve what was never written
            self.held = json.loads(text)

    def set(self, key: str, value: Any) -> None:
        """Set a value."""
        self.held[key] = value
        self._changed = True

    async def durable(self) -> None:
        """Wait until all that is held now is durable.

        Requests that came meanwhile share the next sync: a slow disk would not keep up with one for each.
        """
        if self._changed:
            if self._saving is None or self._saving.done():
                self._saving = asyncio.create_task(self._save())
            await self._saving

    async def _save(self) -> None:
        text = json.dumps(self.held)
        self._changed = False
        try:
            with open(self._path + ".new", "w", encoding="utf-8") as file:
                file.write(f"{_checksum(text)} {text}")
                file.flush()
                os.fsync(file.fileno())
            os.replace(self._path + ".new", self._path)
            folder = os.open(self._folder, os.O_RDONLY)  # a new name is durable only once its folder is
            os.fsync(folder)
            os.close(folder)
        except OSError as error:
            raise SystemExit(f"the disk failed: {error}") from error  # what is on it is not known


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


async def _answered(values: Values, request: dict[str, Any]) -> Any:
    key, old = request["key"], values.held.get(request["key"])
    if request["do"] == "read":
        await values.durable()  # what it answers must not be lost any more
        return old
    done = {"write": True, "cas": old is not None and old == request.get("expected"), "create": old is None}
    if done[request["do"]]:
        values.set(key, request["value"])
    await values.durable()
    return done[request["do"]]


async def _ask(address: str, line: bytes) -> bytes:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(line)
        answer = await reader.readline()
    finally:
        writer.close()
    if not answer:
        raise OSError("the first node closed the connection")
    return answer


async def main(arguments: Sequence[str]) -> None:
    """Serve until the process is killed."""
    parser = argparse.ArgumentParser()
    for option in ("--node", "--listen", "--data"):
        parser.add_argument(option, required=True)
    parser.add_argument("--peer", action="append", default=[])
    given = parser.parse_args(arguments)
    peers = dict(peer.split("=", 1) for peer in given.peer)
    first = min([given.node, *peers])
    values = Values(given.data) if first == given.node else None

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                if values is not None:
                    answer = json.dumps({"value": await _answered(values, json.loads(line))}).encode() + b"\n"
                else:
                    try:
                        answer = await asyncio.wait_for(_ask(peers[first], line), PEER_TIMEOUT_S)
                    except OSError as error:  # a timeout is one
                        answer = json.dumps({"error": f"{first} does not answer: {error}"}).encode() + b"\n"
                writer.write(answer)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    host, _, port = given.listen.rpartition(":")
    server = await asyncio.start_server(serve, host, int(port))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
