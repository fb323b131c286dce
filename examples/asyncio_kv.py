"""A replicated key-value server in plain asyncio: every node takes requests, a majority of nodes makes them safe.

Each key is a register that CASPaxos replicates (Rystsov, 2018): to change it, a node has a majority promise it a
ballot, and then a majority accept the new value. A read asks a majority, and answers with the newest value. That saves
a round trip, and it is wrong: the newest value may have reached one node only, and the next read may ask two others.
With --write-back a read on which the majority does not agree has the value accepted by a majority first.

    python -m examples.asyncio_kv --node n1 --listen 127.0.0.1:7001 --peer n2=127.0.0.1:7002 --data /tmp/n1

Requests and answers are lines of JSON: {"id": 1, "do": "cas", "key": "x", "expected": 1, "value": 2}.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import sys
import zlib
from collections.abc import Sequence
from typing import Any

PEER_TIMEOUT_S = 1.0
REQUEST_TIMEOUT_S = 2.0
ATTEMPTS = 8
REMEMBERED = 100


class Unavailable(Exception):  # noqa: N818 - the word that clients read
    """No majority answered, or others kept changing the key: nothing certain can be said."""


class Slots:
    """What this node promised and accepted: by key [ballot promised, ballot accepted, value, changes and answers]."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._slots: dict[str, list[Any]] = {}
        for name in sorted(os.listdir(directory)):
            if name.endswith(".slot"):
                with open(os.path.join(directory, name), encoding="utf-8") as file:
                    checksum, _, text = file.read().partition(" ")
                if checksum != f"{zlib.crc32(text.encode()):08x}":
                    raise SystemExit(f"{name} is damaged")
                key, self._slots[key] = json.loads(text)

    def get(self, key: str) -> list[Any]:
        """The slot of a key."""
        return self._slots.get(key, [[0, ""], [0, ""], None, []])

    def put(self, key: str, slot: list[Any]) -> None:
        """Replace a slot; it is durable when this returns."""
        text = json.dumps([key, slot])
        path = os.path.join(self._directory, f"{zlib.crc32(key.encode()):08x}.slot")
        try:
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write(f"{zlib.crc32(text.encode()):08x} {text}")
                file.flush()
                os.fsync(file.fileno())
            os.replace(path + ".new", path)
            folder = os.open(self._directory, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
        except OSError as error:
            raise SystemExit(f"the disk failed: {error}") from error
        self._slots[key] = slot


class Peer:
    """Another node: one connection, many requests at a time."""

    def __init__(self, address: str) -> None:
        self._address = address.rpartition(":")
        self._writer: asyncio.StreamWriter | None = None
        self._connecting = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last = 0

    async def ask(self, request: dict[str, Any]) -> Any:
        """The answer; an OSError if there is none."""
        async with self._connecting:
            if self._writer is None:
                host, _, port = self._address
                reader, self._writer = await asyncio.open_connection(host, int(port))
                self._reading = asyncio.create_task(self._read(reader, self._writer))
        self._last += 1
        number, answer = self._last, asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._writer.write(json.dumps({**request, "id": number}).encode() + b"\n")
        try:
            return await asyncio.wait_for(answer, PEER_TIMEOUT_S)
        finally:
            del self._waiting[number]

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                answer = json.loads(line)
                if (waiting := self._waiting.get(answer["id"])) and not waiting.done():
                    waiting.set_result(answer)
        self._writer = None
        writer.close()


class Node:
    """A node: it votes on what others propose, and proposes what its clients ask for."""

    def __init__(self, name: str, peers: dict[str, Peer], slots: Slots, write_back: bool) -> None:
        self._name = name
        self._peers = peers
        self._names = sorted([name, *peers])
        self._slots = slots
        self._write_back = write_back
        self._round = 0
        self._changing: dict[str, asyncio.Lock] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, each as soon as its answer is known."""
        async with asyncio.TaskGroup() as group:
            with contextlib.suppress(OSError):
                while line := await reader.readline():
                    group.create_task(self._serve(json.loads(line), writer))
        writer.close()

    async def _serve(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                answer = await self._answer(request)
        except (Unavailable, TimeoutError):
            answer = {"error": "unavailable"}
        writer.write(json.dumps({**answer, "id": request["id"]}).encode() + b"\n")

    async def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "prepare" | "accept" | "look":
                return self._vote(request)
            case "status":
                return {"nodes": self._names}
            case "read":
                return {"value": await self.read(request["key"])}
            case _:
                return {"value": await self.change(request)}

    def _vote(self, request: dict[str, Any]) -> dict[str, Any]:
        """What this node says to a proposer: no, if it has promised a later ballot."""
        promised, *accepted = self._slots.get(request["key"])
        ballot = request.get("ballot")
        if request["do"] == "prepare" and ballot > promised:
            self._slots.put(request["key"], [ballot, *accepted])
        elif request["do"] == "accept" and ballot >= promised:
            self._slots.put(request["key"], [ballot, ballot, *request["accepted"]])
        elif request["do"] != "look":
            return {"no": promised}
        return {"accepted": accepted}

    async def read(self, key: str) -> Any:
        """The value of a key."""
        votes = await self._majority({"do": "look", "key": key})
        newest = max(votes, key=lambda accepted: accepted[0])
        if self._write_back and any(accepted[0] != newest[0] for accepted in votes):
            return await self.change({"do": "keep", "key": key})
        return newest[1]

    async def change(self, request: dict[str, Any]) -> Any:
        """Change a key: by its home, where changes wait for each other, or here if that does not answer."""
        key = request["key"]
        request = {"change": f"{random.getrandbits(32):x}", **request}
        home = self._names[zlib.crc32(key.encode()) % len(self._names)]
        if home != self._name and "sent" not in request:
            answer = await self._ask(home, {**request, "sent": True})
            if answer is not None and "value" in answer:
                return answer["value"]
        async with self._changing.setdefault(key, asyncio.Lock()):
            return await self._propose(key, request)

    async def _propose(self, key: str, request: dict[str, Any]) -> Any:
        """Replace a value by what the request makes of it, once; the answer to the request."""
        change = request["change"]
        for attempt in range(ATTEMPTS):
            self._round += 1
            ballot = [self._round, self._name]
            with contextlib.suppress(Unavailable):
                votes = await self._majority({"do": "prepare", "key": key, "ballot": ballot})
                _, value, changes = max(votes, key=lambda accepted: accepted[0])
                done = dict(changes)
                new, answer = (value, done[change]) if change in done else applied(request, value)
                if change not in done and request["do"] != "keep":  # one that changed nothing must not be tried again
                    changes = [*changes[1 - REMEMBERED :], [change, answer]]
                await self._majority({"do": "accept", "key": key, "ballot": ballot, "accepted": [new, changes]})
                return answer
            await asyncio.sleep(random.uniform(0, 0.01 * 2**attempt))
        raise Unavailable

    async def _majority(self, request: dict[str, Any]) -> list[Any]:
        """What the first majority that votes yes had accepted."""
        votes: list[Any] = []
        for voted in asyncio.as_completed([self._ask(name, request) for name in self._names]):
            vote = await voted
            if vote is not None and "no" in vote:
                self._round = max(self._round, vote["no"][0])
            elif vote is not None:
                votes.append(vote["accepted"])
            if len(votes) > len(self._names) // 2:
                return votes
        raise Unavailable

    async def _ask(self, name: str, request: dict[str, Any]) -> Any:
        """A node's answer, None if there is none."""
        if name == self._name:
            return self._vote(request)
        with contextlib.suppress(OSError):  # TimeoutError is one
            return await self._peers[name].ask(request)


def applied(request: dict[str, Any], value: Any) -> tuple[Any, Any]:
    """The new value, the same object if nothing changes, and the answer to the request."""
    match request["do"]:
        case "write":
            return request["value"], True
        case "cas" if value == request["expected"]:
            return request["value"], True
        case "create" if value is None:
            return request["value"], True
        case "add":
            return [*(value or []), request["value"]], True
        case "keep":
            return value, value
        case _:
            return value, False


async def main(arguments: Sequence[str]) -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--node", required=True)
    parser.add_argument("--listen", required=True)
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--data", required=True)
    parser.add_argument("--write-back", action="store_true")
    given = parser.parse_args(arguments)
    peers = {name: Peer(address) for name, _, address in (peer.partition("=") for peer in given.peer)}
    node = Node(given.node, peers, Slots(given.data), given.write_back)
    host, _, port = given.listen.rpartition(":")
    server = await asyncio.start_server(node.serve, host, int(port))
    print(f"{given.node} serves {given.listen}", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
