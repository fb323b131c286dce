"""A service that speaks S3 on loopback (moto), and a connection to it that a test makes break or hang."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from typing import Final

BUCKET: Final = "runs"

CREDENTIALS: Final = {
    "AWS_ACCESS_KEY_ID": "someone",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_REGION": "us-east-1",
}

_SERVE: Final = """
import logging, sys
logging.getLogger("werkzeug").setLevel(logging.ERROR)
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
server.start()
print("PORT", server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def serving() -> Generator[int]:
    """The port of a service that is empty but for one bucket; it ends with the block, and with this process."""
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        line = next(line for line in server.stdout if line.startswith("PORT"))
        port = int(line.split()[1])
        make_bucket(port)
        yield port
    finally:
        server.communicate(timeout=30)


def make_bucket(port: int) -> None:
    from pyarrow import fs

    fs.S3FileSystem(
        access_key="someone",
        secret_key="secret",
        region="us-east-1",
        endpoint_override=f"http://127.0.0.1:{port}",
        allow_bucket_creation=True,
    ).create_dir(BUCKET)


def address(port: int, prefix: str) -> str:
    """The address of a store in the bucket."""
    return f"s3://{BUCKET}/{prefix}?endpoint_override=http://127.0.0.1:{port}"


class Relay:
    """Carries connections to a service, until it has carried so many bytes to it; then it hangs, or cuts all of them.

    Attributes:
        port: where it listens.
        full: set when it has carried that many.
        requests: the first lines of what it carried, as far as a packet began with one.
    """

    def __init__(self, to: int, *, after_bytes: int | None = None, hang: bool = False) -> None:
        self.full = threading.Event()
        self.requests: list[str] = []
        self._to = to
        self._left = after_bytes
        self._hang = hang
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._cut()

    def heal(self) -> None:
        """Carry on without a limit."""
        self._left = None
        self.full.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                if self.full.is_set() and not self._hang:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            self._open += [client, server]
            threading.Thread(target=self._carry, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._carry, args=(server, client, False), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, there: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 14):
                if there and self._is_over(data):
                    if self._hang:
                        return
                    self._cut()
                    return
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def _is_over(self, data: bytes) -> bool:
        with self._lock:
            first = data.split(b"\r\n", 1)[0].decode(errors="replace")
            if first.endswith("HTTP/1.1"):
                self.requests.append(first)
            if self._left is None:
                return False
            self._left -= len(data)
            if self._left < 0:
                self.full.set()
            return self._left < 0

    def _cut(self) -> None:
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
