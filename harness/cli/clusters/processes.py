"""Nodes of the metadata cluster as processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from splitbrain.harness.cli.clusters.layout import ClusterNode, Layout
from splitbrain.results.errors import BackendError

HOST: Final = "127.0.0.1"
_DOWN_S: Final = 5.0


def refusal_of_port(port: int) -> str | None:
    """Why nothing can listen on a port, None if it is free."""
    import socket

    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, port))
        except OSError as error:
            return error.strerror
    return None


def start(layout: Layout, *names: str) -> Layout:
    """Start these nodes with the data that they have; they outlive this process."""
    for name in names:
        node = layout.find(name)
        data = layout.home / name
        data.mkdir(exist_ok=True)
        arguments = [sys.executable, "-m", "splitbrain.cluster", *_arguments(layout, node), "--data", str(data)]
        with (layout.home / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        up = {"pid": process.pid, "started": _start_time(process.pid) or 0, "part": "member"}
        # At once: a process that nothing knows of could not be stopped.
        layout = layout.with_nodes(msgspec.structs.replace(node, **up))
    return layout


def _arguments(layout: Layout, node: ClusterNode) -> list[str]:
    arguments = ["--node", node.node, "--listen", f"{HOST}:{node.port}"]
    for peer in layout.state.nodes:
        if peer.node != node.node:
            arguments += ["--peer", f"{peer.node}={HOST}:{peer.port}"]
    founders = layout.state.founders
    if layout.state.discovery and node.node in founders and not node.incarnation:
        arguments += layout.state.discovery
    else:  # one that is no founder waits until it is added
        arguments += ["--founders", ",".join(founders), "--incarnation", str(node.incarnation)]
    if layout.state.store != "tree":
        arguments += ["--store", layout.state.store]
    arguments += ["--partition-strategy", layout.state.strategy] if layout.state.strategy else []
    arguments += ["--preferred", layout.state.preferred] if layout.state.preferred else []
    arguments += ["--bugs", layout.state.bug] if layout.state.bug else []
    return [*arguments, *(["--functions", layout.state.functions] if layout.state.functions else [])]


def stop(layout: Layout, *names: str) -> Layout:
    """Stop these nodes, by pid, in good order; those that do not stop in time are killed.

    Raises:
        BackendError: not even that ended one.
    """
    nodes = [layout.find(name) for name in names]
    _end([node for node in nodes if alive(node)])
    return layout.with_nodes(*(msgspec.structs.replace(node, pid=0, started=0) for node in nodes))


def _end(running: Sequence[ClusterNode]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for node in running:
            if alive(node):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(node.pid, number)
        deadline = time.monotonic() + _DOWN_S
        while time.monotonic() < deadline and any(alive(node) for node in running):
            time.sleep(0.05)
    left = [node.node for node in running if alive(node)]
    if left:
        raise BackendError(f"{', '.join(left)} did not stop after SIGKILL.")


def set_aside(layout: Layout, name: str, incarnation: int) -> Layout:
    """Let a node that is not running begin again, without data, as this incarnation; its folder gets another name."""
    node = layout.find(name)
    data = layout.home / name
    if data.exists():
        data.rename(_unused(layout.home / f"{name}.incarnation-{node.incarnation}"))
    return layout.with_nodes(msgspec.structs.replace(node, incarnation=incarnation))


def _unused(path: Path) -> Path:
    number = 1
    found = path
    while found.exists():
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found


def last_words(layout: Layout, name: str) -> str:
    """The last lines that a node logged."""
    said = (layout.home / f"{name}.log").read_text(errors="replace").strip().splitlines()[-3:]
    return " | ".join(said)


def alive(node: ClusterNode) -> bool:
    """Whether the process of the node still runs."""
    return node.pid != 0 and _start_time(node.pid) == node.started


def _start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    # While another thread of a zombie is ending, its files and its port are still in use.
    is_gone = fields[0] == "Z" and int(fields[17]) <= 1
    return None if is_gone else int(fields[19])
