"""Small trees: conditional writes, deletes and transactions on nested paths, with versions in all answers.

Few names, so that clients meet: nodes come and go, parents with their last child, and nodes with what kept them. Few
payloads, so that a put often changes nothing; they differ in size from nothing to 64 kB. Every tree is judged by itself
(model `tree`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import TREES
from splitbrain.harness.contract.sessions import Trees
from splitbrain.harness.contract.test import OpShape, Test, Workload
from splitbrain.harness.generators import Context, Generator, concurrent_keys, each, invoke, limit, mix, sequence
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.groups import FINAL_READS, keys_used, readers_apart, threads_per_key
from splitbrain.workloads.sessions import ANY, SessionClient

FS: Final = ("put", "delete", "get", "list", "txn")
OPS_PER_KEY: Final = 120
NAMES: Final = ("a", "b")
DEPTH: Final = 3
PAYLOADS: Final = 7
SMALL: Final = 4
"""Payloads of transactions, of which several go into one request, and of conditions."""

STEPS: Final = 4
KEEPING_VERSIONS: Final = 2
VERSIONS: Final = 4
"""Versions that conditions ask for: nodes seldom live to have higher ones."""


class TreeClient(SessionClient[Trees]):
    """Works on one tree at a time."""

    operations = TREES
    shared_by = ANY

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        if op.f not in FS:
            raise ProtocolError(f"the tree workload knows no op {op.f!r}, only {', '.join(FS)}.")
        answer = await self.session.in_tree(op.key or "", op.f, op.value)
        return op.complete("ok", answer.value, term=answer.term)


def _path(ctx: Context) -> str:
    return "/".join(NAMES[ctx.rng.below(len(NAMES))] for _ in range(1 + ctx.rng.below(DEPTH)))


def _put(ctx: Context) -> Op:
    path, number = _path(ctx), ctx.rng.below(PAYLOADS)
    conditions: list[Any] = [
        None,
        None,
        ["create"],
        ["update"],
        ["version", 1 + ctx.rng.below(VERSIONS)],
        ["swap", ctx.rng.below(SMALL)],
    ]
    condition = conditions[ctx.rng.below(len(conditions))]
    return invoke("put", [path, number, condition, _keep(ctx, path)])


def _keep(ctx: Context, path: str) -> Any:
    """What is to keep a node, one in three times: another node, neither itself nor below it, or a child of that.

    One in three of these times that node, or one above it, has to be of some version.
    """
    other = _path(ctx)
    if ctx.rng.below(3) or other == path or other.startswith(f"{path}/"):
        return None
    kind = ctx.rng.below(8)
    kept = [f"{other}/*" if kind % 2 else other, kind > 1]
    if ctx.rng.below(3):
        return kept
    return [*kept, 1 + ctx.rng.below(1 + other.count("/")), 1 + ctx.rng.below(KEEPING_VERSIONS)]


def _delete(ctx: Context) -> Op:
    path = _path(ctx)
    if ctx.rng.below(4) == 0:
        return invoke("delete", [f"{path}/*", None])
    return invoke("delete", [path, ["version", 1 + ctx.rng.below(VERSIONS)] if ctx.rng.below(3) == 0 else None])


def _transact(ctx: Context) -> Op:
    fs = ("put", "create", "update", "delete", "get")
    steps: list[list[Any]] = []
    for _ in range(2 + ctx.rng.below(STEPS - 1)):
        f = fs[ctx.rng.below(len(fs))]
        steps.append([f, _path(ctx), ctx.rng.below(SMALL) if f in ("put", "create", "update") else None])
    return invoke("txn", steps)


def _get(ctx: Context) -> Op:
    return invoke("get", _path(ctx))


def tree(
    *,
    nodes: Sequence[NodeId],
    concurrency: int,
    rate: float = 100.0,
    time_limit_s: float = 30.0,
    ops_per_key: int = OPS_PER_KEY,
) -> Workload:
    """The workload for this number of clients of these nodes.

    Args:
        nodes: names of the nodes.
        concurrency: number of clients.
        rate: their ops per second, for the number of trees that are read at the end.
        time_limit_s: length of the faults phase, likewise.
        ops_per_key: ops on one tree before the next one's turn.
    """
    threads = threads_per_key(concurrency, len(nodes))

    def of_key(_: str) -> Generator:
        reads = mix(_get, each(lambda _: invoke("list")))
        writes = mix(_put, _delete, _transact, _get, weights=[4.0, 1.0, 2.0, 1.0])
        return limit(ops_per_key, readers_apart(threads, len(nodes), reads, writes))

    keys = keys_used(rate, time_limit_s, ops_per_key)
    return Workload(
        name="tree",
        client=TreeClient(),
        generator=concurrent_keys(threads, itertools.count(), of_key),
        final_generator=sequence(*(invoke("list", key=str(key)) for key in range(min(keys, FINAL_READS)))),
        checkers=(
            CheckerSpec("linearizable", {"model": "tree"}),
            CheckerSpec("tree"),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": list(FS), "reads": []}),
        ),
        fs=FS,
        needs=frozenset({TREES.name}),
        shapes={
            "put": OpShape(keyed=True, value=list[Any]),
            "delete": OpShape(keyed=True, value=list[Any]),
            "get": OpShape(keyed=True, value=str),
            "list": OpShape(keyed=True),
            "txn": OpShape(keyed=True, value=list[Any]),
        },
    )
