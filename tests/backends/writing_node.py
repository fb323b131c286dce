"""A node to test disks and clocks with: `writing_node.py HOST PORT DATA`.

It answers one line with one line of JSON. "write": 5,000 bytes are written and synced; "no sync": 100 bytes are
written; "work": it computes for 0.1 s of its own time. The answer tells what came of it, the file's size, and the time.
"""

import asyncio
import errno
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path


class Node:
    def __init__(self, data: Path) -> None:
        self.laid = (data / "laid").read_text()
        self.wal = os.open(data / "wal", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        with (data / "telemetry.jsonl").open("a") as telemetry:
            telemetry.write("start\n")

    def write(self, size: int) -> None:
        rest = bytes(size)
        while rest:
            rest = rest[os.write(self.wal, rest) :]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readline()).strip()
        said = {"laid": self.laid, "time": time.time(), "wrote": None, "synced": None}
        if request == b"work":
            until = time.process_time() + 0.1
            while time.process_time() < until:
                pass
        else:
            said["wrote"] = error(lambda: self.write(5000 if request == b"write" else 100))
        if request == b"write":
            said["synced"] = error(lambda: os.fsync(self.wal))
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
