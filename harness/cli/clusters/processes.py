"""Nodes of the metadata cluster as processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from splitbrain.harness.cli.clusters.layout import NodeProcess, read_state, remove_state
from splitbrain.results.errors import BackendError, UsageError

HOST: Final = "127.0.0.1"
_DOWN_S: Final = 5.0


def check_free(node: str, port: int) -> None:
    """Refuse a port that is in use: a node could not listen there, and another cluster might answer instead.

    Raises:
        UsageError: the port is not free.
    """
    import socket

    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, port))
        except OSError as error:
            raise UsageError(f"--base-port: port {port} of node {node}: {error.strerror}. Choose another.") from error


def start(home: Path, node: str, ports: dict[str, int], bug: str) -> NodeProcess:
    """Start a node; it outlives this process."""
    data = home / node
    data.mkdir(exist_ok=True)
    arguments = [sys.executable, "-m", "splitbrain.cluster", "--node", node, "--listen", f"{HOST}:{ports[node]}"]
    for peer, port in ports.items():
        if peer != node:
            arguments += ["--peer", f"{peer}={HOST}:{port}"]
    arguments += ["--data", str(data), *(["--bugs", bug] if bug else [])]
    with (home / f"{node}.log").open("ab") as log:
        process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    return NodeProcess(node, ports[node], process.pid, _start_time(process.pid) or 0)


def stop_all(home: Path) -> list[str]:
    """Stop the running nodes of the cluster in `home`, by pid, and remove its state; names of the nodes that ran."""
    running = [node for node in read_state(home) if alive(node)]
    for number, patience_s in ((signal.SIGTERM, _DOWN_S), (signal.SIGKILL, _DOWN_S)):
        for node in running:
            if alive(node):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(node.pid, number)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline and any(alive(node) for node in running):
            time.sleep(0.05)
    left = [node.node for node in running if alive(node)]
    if left:
        raise BackendError(f"{', '.join(left)} did not stop after SIGKILL.")
    remove_state(home)
    return [node.node for node in running]


def alive(node: NodeProcess) -> bool:
    """Whether the process still runs."""
    return _start_time(node.pid) == node.started


def _start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])
