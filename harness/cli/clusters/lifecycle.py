"""`splitbrain cluster up` and `down`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final

import click
import msgspec

from splitbrain.harness.cli import completing, options, parsing
from splitbrain.harness.cli.clusters import layout as layouts
from splitbrain.harness.cli.clusters.asking import statuses, without_tables
from splitbrain.harness.cli.clusters.discovery import BACKENDS, discovery_arguments
from splitbrain.harness.cli.clusters.layout import ClusterNode, ClusterState, Layout, folder, forget, stored
from splitbrain.harness.cli.clusters.processes import HOST, alive, last_words, refusal_of_port, start, stop
from splitbrain.results.errors import NodeStartError, UnknownNameError, UsageError
from splitbrain.results.stores import check_writable

_UP_S: Final = 15.0
_FORMED_S: Final = 45.0
"""Longer than nodes look for a cluster: each then ends, and says why (PD-3)."""
_TABLES_S: Final = 45.0
"""Longer than tables look for each other, and than a strategy takes to let them serve."""
_LAST_PORT: Final = 65535
_PAUSES_IF_ALL_DOWN: Final = ("pause-if-all-down-ignore", "pause-if-all-down-autoheal")


@click.command("up", cls=parsing.Command)
@click.option(
    "-n",
    "--nodes",
    default="3",
    show_default=True,
    metavar="N|NAME[,NAME...]",
    help="Number of nodes with which the cluster begins, or their names.",
)
@click.option(
    "--base-port",
    default=7101,
    show_default=True,
    type=click.IntRange(1024, 65000),
    help="Port of the first node on 127.0.0.1; the others take the next ports.",
)
@click.option(
    "--spares",
    default=2,
    show_default=True,
    type=click.IntRange(0, 100),
    help="Nodes that can be added while the cluster is up (splitbrain cluster ctl add).",
)
@click.option(
    "--bug",
    default="",
    callback=parsing.named,
    metavar="ID[,ID...]",
    help="Switch bugs on (splitbrain list bugs).",
    shell_complete=completing.several(completing.of_system("bugs")),
)
@click.option(
    "--functions",
    default="",
    callback=parsing.named,
    metavar="MODULE:ATTRIBUTE[,...]",
    help="Where modules have registered functions, for transactions, that the nodes know beside their own.",
)
@click.option(
    "--store",
    type=click.Choice(("tree", "tables")),
    help="Where entities are at first: tables can be moved to the tree (ctl migrate).  [default: tree]",
)
@click.option(
    "--partition-strategy",
    type=click.Choice(("ignore", "pause-minority", "autoheal", *_PAUSES_IF_ALL_DOWN)),
    help="What nodes do about partitions of the tables.  [default: ignore]",
)
@click.option(
    "--preferred",
    default="",
    callback=parsing.named,
    metavar="NAME[,NAME...]",
    help="For pause-if-all-down: a node that sees none of these nodes pauses.",
)
@click.option(
    "--discovery",
    type=click.Choice(BACKENDS),
    help="Let the nodes find each other by this backend of peer discovery, and form the cluster by themselves.",
)
@click.option(
    "--discovery-endpoint",
    metavar="URL[,URL...]",
    help="Where etcd or Consul is (default: its usual port on this machine).",
)
@click.option(
    "--discovery-cluster",
    metavar="NAME",
    help="Name of the cluster in etcd or Consul (default: default).",
)
@folder
@click.pass_context
def up(
    ctx: click.Context,
    nodes: str,
    base_port: int,
    spares: int,
    bug: str,
    functions: str,
    store: str | None,
    partition_strategy: str | None,
    preferred: str,
    discovery: str | None,
    discovery_endpoint: str | None,
    discovery_cluster: str | None,
    directory: str,
) -> None:
    """Start the nodes and wait for a leader, and for the tables if the cluster has some.

    Data of an earlier `up` in the same DIR is reused: the nodes that are members now are started, with their ports;
    those that were removed are not. All nodes know the names and ports of the spares (n4 and n5 of three nodes) from
    the beginning.

    \b
    Examples:
      splitbrain cluster up
      splitbrain cluster up --nodes 5 --base-port 8000 --dir /tmp/five
      splitbrain cluster up --nodes a,b,c --spares 4
      splitbrain cluster up --store tables --partition-strategy pause-minority
      splitbrain cluster up --store tables --partition-strategy pause-if-all-down-autoheal --preferred n1,n2
      splitbrain cluster up --discovery classic
      splitbrain cluster up --discovery etcd --discovery-endpoint http://127.0.0.1:2379
    """
    from splitbrain.harness.campaigns.compose import node_names
    from splitbrain.harness.contract.listed import names
    from splitbrain.harness.systems.metadata_functions import MetadataFunctions

    _check_bugs(names("--bug", bug))
    MetadataFunctions(names("--functions", functions))
    home = Path(directory)
    former = stored(home)
    if former is not None and any(alive(node) for node in former.nodes):
        raise UsageError(f"a cluster is already up in {home}. To stop it: splitbrain cluster down --dir {home}")
    founders = node_names(nodes)
    _check_stores(store, partition_strategy, discovery, former)
    found_by = discovery_arguments(discovery, discovery_endpoint, discovery_cluster, founders)
    check_writable(home, "--dir")
    if former is None:
        known = [ClusterNode(node, base_port + i) for i, node in enumerate(founders)]
    else:
        if options.given(ctx, "nodes") and list(founders) != former.state.founders:
            began = ", ".join(former.state.founders)
            raise UsageError(
                f"--nodes {nodes}: the cluster in {home} began with {began}. Leave --nodes out and add nodes with "
                f"splitbrain cluster ctl add, or choose another --dir."
            )
        if discovery is not None and found_by != former.state.discovery:
            raise UsageError(
                f"--discovery: the cluster in {home} was formed otherwise, and is formed once only. Leave it out, or "
                f"choose another --dir."
            )
        store = former.state.store
        if partition_strategy is None:
            partition_strategy, preferred = former.state.strategy or None, preferred or former.state.preferred
        found_by = former.state.discovery
        founders = former.state.founders
        known = _renumbered(former.state.nodes, base_port if options.given(ctx, "base_port") else None)
        spares = spares if options.given(ctx, "spares") else 0
    _check_preferred(partition_strategy or "", preferred, founders)
    members = [node for node in known if node.part == "member"]
    for node in members:
        problem = refusal_of_port(node.port)
        if problem is not None:
            raise UsageError(f"--base-port: port {node.port} of node {node.node}: {problem}. Choose another.")
    home.mkdir(parents=True, exist_ok=True)
    state = ClusterState(
        _with_spares(known, spares),
        list(founders),
        bug,
        functions,
        found_by,
        store or "tree",
        partition_strategy or "",
        preferred,
    )
    layout = layouts.store(home, state)
    try:
        layout = start(layout, *(node.node for node in members))
        leader = asyncio.run(_until_led(layout, whole=bool(found_by)))
        if state.store == "tables":
            asyncio.run(_until_tables_serve(layout, may_fail=former is not None))
    except BaseException:
        _stop_all(home)
        if former is None:
            forget(home)
        raise
    for node in layout.nodes:
        click.echo(f"{node.node}  {HOST}:{node.port}  pid {node.pid}{'  leader' if node.node == leader else ''}")


@click.command("down", cls=parsing.Command)
@folder
def down(directory: str) -> None:
    """Stop every node that runs. The data stays; the next `up` reuses it.

    \b
    Example:
      splitbrain cluster down
    """
    stopped = _stop_all(Path(directory))
    click.echo(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")


def _check_stores(wanted: str | None, strategy: str | None, discovery: str | None, former: Layout | None) -> None:
    """Refuse options about stores of entities that do not go together.

    Raises:
        UsageError: they do not, or the cluster began otherwise.
    """
    began = None if former is None else former.state.store
    if strategy is not None and "tables" not in (wanted, began):
        raise UsageError("--partition-strategy is about tables: give --store tables, too.")
    if discovery is not None and wanted == "tables":
        raise UsageError("--discovery: nodes with tables begin with the nodes of --nodes. Leave --store or it out.")
    if began is not None and wanted not in (None, began):
        raise UsageError(
            f"--store: the cluster in this folder began with {began}. Leave it out, or choose another --dir."
        )


def _check_bugs(bugs: Sequence[str]) -> None:
    from splitbrain.cluster.client import BUGS

    for each in bugs:
        if each not in BUGS:
            raise UnknownNameError("bug", each, BUGS)


def _check_preferred(strategy: str, preferred: str, founders: Sequence[str]) -> None:
    """Refuse a list of nodes without the strategy that is about it, and the other way round.

    Raises:
        UsageError: they do not go together, or there is no such node.
    """
    if (strategy in _PAUSES_IF_ALL_DOWN) != bool(preferred):
        raise UsageError(f"--preferred lists nodes for {' and '.join(_PAUSES_IF_ALL_DOWN)}: give both, or none.")
    for name in preferred.split(",") if preferred else ():
        if name not in founders:
            raise UsageError(f"--preferred {name}: there is no such node among {', '.join(founders)}.")


def _stop_all(home: Path) -> list[str]:
    """Stop all nodes of the cluster in a folder; names of those that ran."""
    layout = stored(home)
    if layout is None:
        return []
    ran = [node.node for node in layout.nodes if alive(node)]
    stop(layout, *(node.node for node in layout.nodes))
    return ran


def _renumbered(nodes: Sequence[ClusterNode], base_port: int | None) -> list[ClusterNode]:
    """Nodes that are not running, with ports from `base_port` on, or with those that they had."""
    stopped = [msgspec.structs.replace(node, pid=0, started=0) for node in nodes]
    if base_port is None:
        return stopped
    return [msgspec.structs.replace(node, port=base_port + i) for i, node in enumerate(stopped)]


def _with_spares(nodes: Sequence[ClusterNode], spares: int) -> list[ClusterNode]:
    """These nodes and as many spares, with the next names and the next ports that are free."""
    found = list(nodes)
    taken = {node.node for node in nodes}
    unused = (name for name in map("n{}".format, count(1)) if name not in taken)
    ports = (port for port in range(1 + max(node.port for node in nodes), _LAST_PORT + 1) if not refusal_of_port(port))
    missing = spares - sum(node.part == "spare" for node in nodes)
    for _ in range(missing):
        port = next(ports, None)
        if port is not None:
            found.append(ClusterNode(next(unused), port, part="spare"))
    return found


async def _until_led(layout: Layout, *, whole: bool) -> str:
    """The leader, once a majority agrees on it; with `whole` once all do, as then each has found the cluster."""
    nodes = layout.nodes
    needed = len(nodes) if whole else len(nodes) // 2 + 1
    up_s = _FORMED_S if whole else _UP_S
    deadline = time.monotonic() + up_s
    while time.monotonic() < deadline:
        for node in nodes:
            if not alive(node):
                raise NodeStartError(f"node {node.node} ended at once: {last_words(layout, node.node)}")
        leaders = [status["leader"] for status in await statuses(nodes) if status.get("leader")]
        for leader in leaders:
            if leaders.count(leader) >= needed:
                return leader
        await asyncio.sleep(0.1)
    said = f" {nodes[0].node} said: {last_words(layout, nodes[0].node)}." if whole else ""
    raise NodeStartError(f"no leader after {up_s:g} s.{said} The nodes' logs are {layout.home}/*.log.")


async def _until_tables_serve(layout: Layout, *, may_fail: bool) -> None:
    """Wait until each node answers from the store in force; with `may_fail` only say so if one does not.

    Of a cluster that was up before, a node with tables may be gone for ever, and then others wait for it: an operator
    can do something about that only while they run.
    """
    nodes = [node for node in layout.nodes if node.node in layout.state.founders]
    deadline = time.monotonic() + _TABLES_S
    while waiting := await without_tables(nodes):
        for node in nodes:
            if not alive(node):
                raise NodeStartError(f"node {node.node} ended: {last_words(layout, node.node)}")
        if time.monotonic() >= deadline:
            said = f"the tables of {', '.join(waiting)} do not serve after {_TABLES_S:g} s"
            if not may_fail:
                raise NodeStartError(f"{said}. The nodes' logs are {layout.home}/*.log.")
            click.echo(f"{said}: splitbrain cluster ctl cluster_status says what they wait for.", err=True)
            return
        await asyncio.sleep(0.1)
