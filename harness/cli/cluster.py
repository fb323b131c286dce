"""`splitbrain cluster`: run the metadata cluster by hand, as processes on this machine that live until they are
stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from splitbrain.harness.cli import options, parsing
from splitbrain.results.errors import BackendError, NodeStartError, UnknownNameError, UsageError
from splitbrain.results.stores import check_path, check_writable

T = TypeVar("T")

HOST: Final = "127.0.0.1"
_STATE: Final = "cluster.json"
_UP_S: Final = 15.0
_DOWN_S: Final = 5.0


class NodeProcess(msgspec.Struct, frozen=True):
    """A node that `cluster up` started. `started` is its start time in clock ticks: it differs if a pid is reused."""

    node: str
    port: int
    pid: int
    started: int


class ClusterState(msgspec.Struct, frozen=True):
    """What `cluster up` stores for the other commands."""

    nodes: list[NodeProcess]


def _check_folder(_: click.Context, __: click.Parameter, value: str) -> str:
    check_path(value, "--dir")
    return value


folder = click.option(
    "--dir",
    "directory",
    default="metadata-cluster",
    show_default=True,
    metavar="DIR",
    callback=_check_folder,
    help="The folder of the nodes' data and logs.",
)


@click.group("cluster", cls=parsing.Group)
def command() -> None:
    """Start, stop and use the metadata cluster by hand.

    \b
    Examples:
      splitbrain cluster up --nodes 3
      splitbrain cluster ctl put /queues/orders '{"durable": true}'
      splitbrain cluster ctl --node n2 get /queues/orders
      splitbrain cluster status
      splitbrain cluster down
    """


# --- up and down ----------------------------------------------------------------------------------------------------


@command.command("up")
@click.option(
    "-n", "--nodes", default="3", show_default=True, metavar="N|NAME[,NAME...]", help="Number of nodes, or their names."
)
@click.option(
    "--base-port",
    default=7101,
    show_default=True,
    type=click.IntRange(1024, 65000),
    help="Port of the first node on 127.0.0.1; the others take the next ports.",
)
@click.option(
    "--bug", default="", callback=parsing.named, metavar="ID[,ID...]", help="Switch bugs on (splitbrain list bugs)."
)
@folder
def up(nodes: str, base_port: int, bug: str, directory: str) -> None:
    """Start the nodes and wait for a leader. Data of an earlier `up` in the same DIR is reused."""
    from splitbrain.cluster.client import BUGS
    from splitbrain.harness.campaigns.compose import node_names
    from splitbrain.harness.contract.listed import names

    for each in names("--bug", bug):
        if each not in BUGS:
            raise UnknownNameError("bug", each, BUGS)
    home = Path(directory)
    if any(_alive(node) for node in _read_state(home)):
        raise UsageError(f"a cluster is already up in {home}. To stop it: splitbrain cluster down --dir {home}")
    listed = node_names(nodes)
    ports = {node: base_port + i for i, node in enumerate(listed)}
    check_writable(home, "--dir")
    for node, port in ports.items():
        _check_free(node, port)
    home.mkdir(parents=True, exist_ok=True)
    started = [_start(home, node, ports, bug) for node in listed]
    _write_state(home, started)
    try:
        leader = asyncio.run(_until_led(home, started))
    except BaseException:
        _stop_all(home)
        raise
    for node in started:
        click.echo(f"{node.node}  {HOST}:{node.port}  pid {node.pid}{'  leader' if node.node == leader else ''}")


@command.command("down")
@folder
def down(directory: str) -> None:
    """Stop every node that `up` started. The data stays; the next `up` reuses it."""
    stopped = _stop_all(Path(directory))
    click.echo(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")


def _check_free(node: str, port: int) -> None:
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


def _start(home: Path, node: str, ports: dict[str, int], bug: str) -> NodeProcess:
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


def _stop_all(home: Path) -> list[str]:
    """Stop the running nodes of the cluster in `home`, by pid, and remove its state; names of the nodes that ran."""
    running = [node for node in _read_state(home) if _alive(node)]
    for number, patience_s in ((signal.SIGTERM, _DOWN_S), (signal.SIGKILL, _DOWN_S)):
        for node in running:
            if _alive(node):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(node.pid, number)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline and any(_alive(node) for node in running):
            time.sleep(0.05)
    left = [node.node for node in running if _alive(node)]
    if left:
        raise BackendError(f"{', '.join(left)} did not stop after SIGKILL.")
    (home / _STATE).unlink(missing_ok=True)
    return [node.node for node in running]


async def _until_led(home: Path, nodes: list[NodeProcess]) -> str:
    """The leader, once a majority agrees on it."""
    deadline = time.monotonic() + _UP_S
    while time.monotonic() < deadline:
        for node in nodes:
            if not _alive(node):
                said = (home / f"{node.node}.log").read_text(errors="replace").strip().splitlines()[-3:]
                raise NodeStartError(f"node {node.node} ended at once: {' | '.join(said)}")
        leaders = [status["leader"] for status in await _statuses(nodes) if status.get("leader")]
        for leader in leaders:
            if leaders.count(leader) > len(nodes) // 2:
                return leader
        await asyncio.sleep(0.1)
    raise NodeStartError(f"no leader after {_UP_S:g} s. The nodes' logs are {home}/*.log.")


# --- status and ctl -------------------------------------------------------------------------------------------------


@command.command("status")
@folder
@options.as_json
@click.pass_context
def status(ctx: click.Context, directory: str, as_json: bool) -> None:
    """The status of every node. Exit code 0 if a majority agrees on a leader, else 1."""
    nodes = _state(Path(directory))
    found = asyncio.run(_statuses(nodes))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        for each in found:
            click.echo(f"{each['node']:4} {_said(each)}")
    leaders = [each.get("leader") for each in found if each.get("leader")]
    ctx.exit(0 if any(leaders.count(leader) > len(nodes) // 2 for leader in leaders) else 1)


def _said(status: dict[str, Any]) -> str:
    if "problem" in status:
        return status["problem"]
    return (
        f"{status['role']:10} term {status['term']:<5} leader {status['leader'] or '-':6} "
        f"committed {status['commit_index']:<8} applied {status['applied_index']:<8} state {status['state_hash']}"
    )


@command.command("ctl")
@click.option(
    "--node", default=None, callback=parsing.named, metavar="NAME", help="The node to ask.  [default: the first]"
)
@click.option("--timeout", default=5.0, show_default=True, metavar="SECONDS", help="Timeout of an answer.")
@folder
@click.argument("verb", type=click.Choice(["get", "children", "put", "create", "update", "cas", "delete"]))
@click.argument("path")
@click.argument("values", nargs=-1, metavar="[VALUE]...")
@click.pass_context
def ctl(
    ctx: click.Context, node: str | None, timeout: float, directory: str, verb: str, path: str, values: tuple[str, ...]
) -> None:
    """One operation on the metadata tree, through one node. Values are JSON; other text is taken as a string.

    Exit code 1 if it was refused, or if its outcome is unknown.

    \b
    get PATH | children PATH | delete PATH
    put PATH VALUE | create PATH VALUE | update PATH VALUE
    cas PATH EXPECTED VALUE
    """
    from splitbrain.cluster.client import Client, ClusterError
    from splitbrain.harness.contract.test import TIME_MAX_S, check_number

    wanted = {"put": 1, "create": 1, "update": 1, "cas": 2}.get(verb, 0)
    if len(values) != wanted:
        raise UsageError(f"ctl {verb} takes a path and {wanted} value(s), not {len(values)}.")
    check_number("--timeout", timeout, TIME_MAX_S)
    nodes = _state(Path(directory))
    chosen = next((each for each in nodes if node in (None, each.node)), None)
    if chosen is None:
        raise UsageError(f"there is no node {node!r} in this cluster: {', '.join(each.node for each in nodes)}.")
    arguments = [_value(each) for each in values]
    method = {"cas": "compare_and_swap"}.get(verb, verb)

    async def ask(client: Client) -> Any:
        return await getattr(client, method)(path, *arguments, timeout_ms=int(timeout * 1000))

    try:
        answer = asyncio.run(_with_client(chosen, ask))
    except (ClusterError, OSError) as error:
        click.echo(f"splitbrain: {chosen.node}: {error}", err=True)
        ctx.exit(1)
    click.echo(msgspec.json.format(msgspec.json.encode(answer)).decode())


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


async def _statuses(nodes: list[NodeProcess]) -> list[dict[str, Any]]:
    """One document per node: its status, or what is wrong with it."""
    from splitbrain.cluster.client import Client, ClusterError

    async def ask(client: Client) -> dict[str, Any]:
        return msgspec.to_builtins(await client.status())

    async def one(node: NodeProcess) -> dict[str, Any]:
        try:
            async with asyncio.timeout(1.0):
                return await _with_client(node, ask)
        except (ClusterError, OSError, TimeoutError) as error:
            problem = "does not answer" if _alive(node) else "is not running"
            return {"node": node.node, "problem": f"{problem}{f' ({error})' if str(error) else ''}"}

    return list(await asyncio.gather(*(one(node) for node in nodes)))


async def _with_client(node: NodeProcess, use: Callable[[Any], Awaitable[T]]) -> T:
    import socket

    from splitbrain.cluster.client import connect

    endpoint = socket.socket()
    endpoint.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(endpoint, (HOST, node.port))
    except OSError:
        endpoint.close()
        raise
    client = await connect(endpoint)
    try:
        return await use(client)
    finally:
        await client.close()


# --- what is up -----------------------------------------------------------------------------------------------------


def _state(home: Path) -> list[NodeProcess]:
    nodes = _read_state(home)
    if not nodes:
        raise UsageError(f"no cluster is up in {home}: start one with splitbrain cluster up --dir {home}.")
    return nodes


def _read_state(home: Path) -> list[NodeProcess]:
    try:
        return msgspec.json.decode((home / _STATE).read_bytes(), type=ClusterState).nodes
    except FileNotFoundError:
        return []
    except msgspec.DecodeError as error:
        raise UsageError(f"{home / _STATE} is damaged: {error}. Stop its nodes, then remove it.") from error


def _write_state(home: Path, nodes: list[NodeProcess]) -> None:
    aside = home / f".{_STATE}"
    aside.write_bytes(msgspec.json.format(msgspec.json.encode(ClusterState(nodes))))
    aside.rename(home / _STATE)


def _alive(node: NodeProcess) -> bool:
    return _start_time(node.pid) == node.started


def _start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])
