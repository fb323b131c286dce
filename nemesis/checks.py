"""Checks of a request that a person wrote, before anything is started."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from splitbrain.harness.contract.nodes import NodeId
from splitbrain.results.errors import UnknownNameError, UsageError


def check_enough(nodes: Sequence[NodeId], needed: int, what: str) -> None:
    """Refuse too few nodes for a request.

    Raises:
        UsageError: there are fewer than `needed`.
    """
    if len(nodes) < needed:
        raise UsageError(f"{what} needs {needed} nodes, and there are {len(nodes)}.")


def check_name(what: str, name: str | None, known: Collection[str], where: str = "") -> None:
    """Refuse a name that is not among the known ones.

    Raises:
        UnknownNameError: so it is.
    """
    if name not in known:
        raise UnknownNameError(what, str(name), known, where)


def check_nodes(f: str, field: str, listed: Sequence[NodeId], nodes: Sequence[NodeId]) -> None:
    """Refuse a field that names no nodes, or nodes that are not in the test.

    Raises:
        UsageError: so it is.
    """
    if not listed:
        raise UsageError(f"{f}: {field} names nodes, such as {', '.join(nodes[:2])}.")
    for node in listed:
        if node not in nodes:
            raise UsageError(f"{f}: {field} names {node!r}; the nodes are {', '.join(nodes)}.")


def check_over(over: bool) -> None:
    """Refuse an op that asks not to be over when it ends, of a kind that always is.

    Raises:
        UsageError: so it is.
    """
    if not over:
        raise UsageError(f"such a fault always ends with its op: remove over (here {over!r}).")
