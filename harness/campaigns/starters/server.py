"""A server in plain asyncio: the first node keeps the values in a log, the others ask it.

python -m splitbrain.harness.campaigns.starters.server --node n1 --listen 127.0.0.1:7001 --data FOLDER --peer n2=...
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

PEER_TIMEOUT_S = 1.0


class Log:
    """All writes in a file, in order; a write is durable when `append` returns."""

    def __init__(self, path: str) -> None:
        self.values: dict[str, Any] = {}
        whole = 0
        if os.path.exists(path):
            with open(path, "rb") as file:
                lines = file.read().split(b"\n")
            for line in lines[:-1]:  # what stands behind the last line break was never acknowledged
                key, value = json.loads(line)
                self.values[key] = value
                whole += len(line) + 1
        self._file = open(path, "ab")  # noqa: SIM115 - open until the process ends
        self._file.truncate(whole)
        self._file.flush()
        os.fsync(self._file.fileno())

    def append(self, key: str, value: Any) -> None:
        """Set a value."""
        self._file.write(json.dumps([key, value]).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.values[key] = value


def _answered(log: Log, request: dict[str, Any]) -> Any:
    key, old = request["key"], log.values.get(request["key"])
    if request["do"] == "read":
        return old
    done = {"write": True, "cas": old is not None and old == request.get("expected"), "create": old is None}
    if done[request["do"]]:
        log.append(key, request["value"])
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
    log = Log(os.path.join(given.data, "log")) if first == given.node else None

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                if log is not None:
                    answer = json.dumps({"value": _answered(log, json.loads(line))}).encode() + b"\n"
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
