"""A node to test disks with: `writing_node.py HOST PORT DATA`.

It answers a line by writing 5,000 bytes and a sync, and a line of JSON: what came of that, and the file's size.
"""

import asyncio
import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path


class Node:
    def __init__(self, data: Path) -> None:
        self.wal = os.open(data / "wal", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        with (data / "telemetry.jsonl").open("a") as telemetry:
            telemetry.write("start\n")

    def write(self, size: int) -> None:
        rest = bytes(size)
        while rest:
            rest = rest[os.write(self.wal, rest) :]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        said: dict[str, object] = {
            "wrote": error(lambda: self.write(5000)),
            "synced": error(lambda: os.fsync(self.wal)),
        }
        said["size"] = os.fstat(self.wal).st_size
        writer.write(json.dumps(said).encode() + b"\n")
        writer.close()


def error(call: Callable[[], object]) -> str | None:
    """The error of a call by name, None if it has none."""
    try:
        call()
    except OSError as problem:
        return errno.errorcode[problem.errno or 0]
    return None


async def main(host: str, port: int, data: Path) -> None:
    server = await asyncio.start_server(Node(data).serve, host, port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
