"""Disks that are full, read-only or slow, fail, rot, or lose the ends of files.

Only a minority of the nodes is hit, so that the cluster stays recoverable.

An op has the spec of its target nodes (`spec`) and the fault of their disks (`spoil`, the fields of `DiskFault`).
A node whose disk fails should stop rather than continue with promises that it cannot keep. Nodes that stopped are
restarted when the fault is healed.

Rot, like a truncated file, shows only when the data is read: the node is killed, its disk rots, and the node is
restarted on it. It should refuse to start; then it stays down until the fault is healed. In any case a majority keeps
all data: over a whole run only the same minority of nodes rots, and nodes that are down count as lost meanwhile.
(TigerBeetle's simulator bounds its storage faults by such an atlas; the hazard is that of Alagappan et al.,
"Protocol-Aware Recovery for Consensus-Based Storage", FAST 2018.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.faultkinds import DISK_KINDS, of_disk
from splitbrain.harness.contract.faults import DiskFault, FaultKind
from splitbrain.harness.contract.marks import reached
from splitbrain.harness.contract.nodes import NodeId, NodeStatus
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.nemesis.checks import check_enough
from splitbrain.nemesis.draws import magnitude
from splitbrain.nemesis.effects import Effect, carry_out, status_evidence, statuses
from splitbrain.nemesis.grudges import majority
from splitbrain.nemesis.kinds import Asked, Figures, Injection, Kind, Ways
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.targets import choose, fewest, needs_views, views
from splitbrain.results.errors import BackendError, NemesisError, NodeStartError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import RequestOfNodes, asked

NODES_MIN: Final = 3
"""With fewer nodes a majority needs every node: no disk may fail."""

_FAULT: Final = "disk"

_MARKS: Final[Mapping[str, str]] = {
    "refused_writes": "disk refused writes",
    "failed_syncs": "sync failed",
    "slowed_syncs": "disk was slow",
    "failed_reads": "disk failed",
    "failed_writes": "disk failed",
}
"""Coverage marks by what backends count."""

_MET: Final = (*_MARKS, "dropped_bytes", "rotten_reads", "failed_calls", "halted")
"""What backends report of nodes that met a fault. Other counts are of the fault itself and of the backend's own
probes.
"""


class DiskRequest(RequestOfNodes, tag="disk", frozen=True, kw_only=True):
    """The disk fault of some nodes."""

    spoil: DiskFault

    def __post_init__(self) -> None:
        """Refuse a fault without effect (UsageError)."""
        if self.spoil == DiskFault():
            raise UsageError("the disk fault has no effect: give it full, sync_fails, ... or rot.")


FULL: Final[Mapping[str, Any]] = {"spoil": {"full": True}}
"""Writes that need more space fail."""

READ_ONLY: Final[Mapping[str, Any]] = {"spoil": {"read_only": True}}
"""Writes fail."""

FAILS: Final[Mapping[str, Any]] = {"spoil": {"fails": True}}
"""Reads, writes and syncs fail."""

SYNC_FAILS: Final[Mapping[str, Any]] = {"spoil": {"sync_fails": True}}
"""The next sync fails and drops what it should have made durable."""


def slow(_: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """Syncs take 20 to 1,000 ms longer."""
    return {"spoil": {"slow_ms": magnitude(rng, 20, 1000)}}


def rot(_: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """One to four sectors rot."""
    return {"spoil": {"rot": rng.between(1, 4)}}


def truncate(_: Sequence[NodeId], rng: Rng) -> Mapping[str, Any]:
    """One or two files lose their ends."""
    return {"spoil": {"truncate": rng.between(1, 2)}}


class Disks:
    """Injects disk faults (`start-disk`); heals them and restarts nodes that stopped because of them (`stop-disk`).

    Args:
        ledger: shared with other nemeses of the test, if there are any.
    """

    fs = frozenset({"start-disk", "stop-disk"})
    faults: frozenset[FaultKind] = frozenset({*DISK_KINDS, "kill"})

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        """Inject the fault into the disks of the op's target nodes, or heal all; reports what the faults did."""

        async def start(effect: Effect) -> None:
            wanted = asked(op.value, DiskRequest)
            chosen = await self._choose(context, wanted)
            effect.hits(chosen, otherwise="no node can be spared")
            await self._spoil(context.deployment, chosen, wanted.spoil, effect)

        async def stop(effect: Effect) -> None:
            effect.hits(self._ledger.spoiled, otherwise="every disk is well")
            await self._make_well(context.deployment, effect)

        return await carry_out(context, op, start if op.f == "start-disk" else stop, self._ledger)

    async def heal(self, context: NemesisContext) -> None:
        """Heal every disk, and restart the nodes that stopped because of it.

        Raises:
            NemesisError: a disk cannot be healed, or a node does not run afterwards.
        """
        try:
            await self._make_well(context.deployment, Effect())
        finally:
            self._ledger.rotted.clear()

    async def _choose(self, context: NemesisContext, wanted: DiskRequest) -> list[NodeId]:
        """The target nodes that can be spared; if none of them can, any other node that can."""
        order = wanted.order or context.deployment.nodes
        seen = await statuses(context.deployment)
        lost = [node for node, status in seen.items() if status.state == "stopped" or node in self._ledger.spoiled]
        lost += self._ledger.rotted if _hits_stored_data(wanted.spoil) else ()
        targets = choose(wanted.node_spec, order, await views(context) if needs_views(wanted.node_spec) else ())
        return spare(targets, seen, lost) or spare(order, seen, lost)[:1]

    async def _spoil(self, deployment: Deployment, nodes: Sequence[NodeId], fault: DiskFault, effect: Effect) -> None:
        problems: list[str] = []
        for node in nodes:
            evidence = effect.evidence[node] = {"before": status_evidence(await deployment.status(node))}
            self._ledger.spoiled[node] = fault
            self._ledger.hold(node, _FAULT)
            try:
                if _hits_stored_data(fault):
                    await self._let_rot(deployment, node, fault, evidence)
                else:
                    evidence["found"] = dict(await deployment.spoil(node, fault))
            except BackendError as problem:
                problems.append(f"{node}: {problem}")
            evidence["after"] = status_evidence(await deployment.status(node))
        if problems:
            raise NemesisError(f"disk: {'; '.join(problems)}.")

    async def _let_rot(self, deployment: Deployment, node: NodeId, fault: DiskFault, evidence: dict[str, Any]) -> None:
        self._ledger.rotted[node] = None
        await deployment.kill(node)
        found = evidence["found"] = dict(await deployment.spoil(node, fault))
        evidence["bit"] = bool(found.get("rotten") or found.get("truncated"))
        if found.get("truncated"):
            self._ledger.damaged[node] = None
            reached("files truncated")
        try:
            await deployment.start(node)
        except NodeStartError as refusal:
            if not evidence["bit"]:
                raise
            evidence["refused"] = str(refusal)
            reached("node did not start on rotten data")
        else:
            if evidence["bit"]:
                reached("node started on rotten data")

    async def _make_well(self, deployment: Deployment, effect: Effect) -> None:
        """Remove every fault, then restart every node that stopped because of it, unless another fault keeps it
        down.
        """
        problems: list[str] = []
        hit = list(self._ledger.spoiled)
        for node in hit:
            evidence = effect.evidence[node] = {"before": status_evidence(await deployment.status(node))}
            try:
                evidence.update(_did(await deployment.spoil(node, None)))
                del self._ledger.spoiled[node]
            except BackendError as problem:
                problems.append(f"{node}: {problem}")
        self._ledger.release(_FAULT)
        for node in hit:
            try:
                problems += await self._start(deployment, node, effect.evidence[node])
            except BackendError as problem:
                problems.append(f"{node}: {problem}")
        if problems:
            raise NemesisError(f"disk: {'; '.join(problems)}.")

    async def _start(self, deployment: Deployment, node: NodeId, evidence: dict[str, Any]) -> list[str]:
        status = await deployment.status(node)
        others = self._ledger.held_by_others(node, _FAULT)
        if status.state == "stopped" and others:
            evidence["left to"] = others
        elif status.state == "stopped":
            try:
                await deployment.start(node)
            except NodeStartError as refusal:
                if not self._ledger.may_stay_down(node):
                    raise
                evidence["refused"] = str(refusal)
            status = await deployment.status(node)
            if status.state == "running":
                reached("node restarted")
        evidence["after"] = status_evidence(status)
        must_run = not others and not self._ledger.may_stay_down(node)
        return [f"{node} is stopped instead of running"] if status.state == "stopped" and must_run else []


def _hits_stored_data(fault: DiskFault) -> bool:
    """Whether it damages stored data while no process runs; the next process finds the damage."""
    return bool(fault.rot or fault.truncate)


def spare(wished: Sequence[NodeId], seen: Mapping[NodeId, NodeStatus], lost: Sequence[NodeId]) -> list[NodeId]:
    """The first of the `wished` nodes that are alive and, together with the `lost` ones, stay a minority.

    `seen` holds the status of every node of the test.
    """
    room = len(seen) - majority(len(seen))
    without = dict.fromkeys(lost)
    chosen: list[NodeId] = []
    for node in wished:
        if seen[node].state != "stopped" and len({**without, node: None}) <= room:
            without[node] = None
            chosen.append(node)
    return chosen


def _did(counts: Mapping[str, Any]) -> dict[str, Any]:
    """What a fault did while it lasted, and whether a node met it, if the backend counts that."""
    for what, mark in _MARKS.items():
        if counts.get(what):
            reached(mark)
    met = [bool(counts[what]) for what in _MET if what in counts]
    return {"did": dict(counts), **({"bit": any(met)} if met else {})}


# --- the kind of fault ------------------------------------------------------------------------------------------------


def _check(given: Asked[DiskRequest]) -> None:
    if given.request.spoil.wipe:
        raise UsageError("a disk is wiped only when its node leaves the cluster: use the op leave.")
    check_enough(given.nodes, NODES_MIN, "a fault of disks")


def _disks(need: FaultKind, request: Mapping[str, Any], figures: Figures | None = None) -> tuple[Injection, ...]:
    needs: tuple[FaultKind, ...] = (need, "kill")
    return tuple(
        Injection({"spec": spec, **request}, nodes=max(NODES_MIN, fewest(spec)), figures=figures, needs=needs)
        for spec in ("one", "leader", "minority")
    )


KIND: Final = Kind(
    request=DiskRequest,
    nemesis=Disks,
    start_f="start-disk",
    stop_f="stop-disk",
    example='{"spec": "leader", "spoil": {"full": true}}',
    needs=lambda request: (*of_disk(request.spoil), "kill"),
    marks=(
        *_MARKS.values(),
        "files truncated",
        "node started on rotten data",
        "node did not start on rotten data",
        "node stopped by its disk",
        "node restarted",
    ),
    healed=22,
    check=_check,
    ways={
        "disk": Ways(
            (
                (*_disks("disk-full", FULL), *_disks("disk-read-only", READ_ONLY)),
                (*_disks("disk-sync", SYNC_FAILS), *_disks("disk-fails", FAILS)),
                _disks("disk-slow", {}, slow),
                _disks("disk-rot", {}, rot),
            ),
            "disks of a minority in turn are full or read-only, fail syncs or all I/O, are slow, and rot",
        ),
        "disk-read-only": Ways(
            (_disks("disk-read-only", READ_ONLY),), "disks of a minority of the nodes refuse writes"
        ),
        "disk-fails": Ways(
            (_disks("disk-fails", FAILS),), "disks of a minority of the nodes fail to read and to write"
        ),
        "disk-truncate": Ways(
            (_disks("disk-truncate", {}, truncate),),
            "files of a minority of the nodes lose their ends, and the nodes restart on them (in no mix: a crash alone "
            "does not do that)",
            # A log without its end looks like a log whose last write never finished; a system may be unable to
            # distinguish them.
            fair=False,
        ),
        "disk-full": Ways((_disks("disk-full", FULL),), "writes of a minority of the nodes find no space"),
        "disk-sync": Ways(
            (_disks("disk-sync", SYNC_FAILS),), "a sync of a minority of the nodes fails and drops what it synced"
        ),
        "disk-slow": Ways(
            (_disks("disk-slow", {}, slow),), "syncs of a minority of the nodes take 20 ms to a second longer"
        ),
        "disk-rot": Ways(
            (_disks("disk-rot", {}, rot),), "sectors of a minority of the nodes rot, and the nodes restart on them"
        ),
    },
)
