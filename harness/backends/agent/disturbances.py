"""The faults of all links between nodes whose network namespaces are on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from .packets import PacketFaults
from .tools import AgentError

Link = tuple[str, str]


class Disturbances:
    """Faults of links, each enforced where the packets of its source leave.

    Args:
        places: for every node a descriptor of its network namespace, and its address there; looked at when a fault
            comes, so that nodes may be added later.
    """

    def __init__(self, places: Mapping[str, tuple[int, str]]) -> None:
        self._places = places
        # Each thread has its own network namespace: that of the process is its first thread's.
        self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self._senders: dict[str, PacketFaults] = {}
        self._faults: dict[Link, Mapping[str, Any]] = {}

    @property
    def held(self) -> Sequence[Link]:
        """The links that pass nothing until their fault is healed."""
        return [link for link, fault in self._faults.items() if fault.get("held")]

    def set(self, faults: Mapping[Link, Mapping[str, Any]]) -> None:
        """Give exactly these links these faults, and all others none (`PacketFaults.set`).

        Raises:
            AgentError: a node's packets cannot be given faults; then no link has one, unless the message says so.
        """
        try:
            self._set(faults)
        except AgentError as error:
            self._faults = {}
            stuck = self._take_all_away()
            raise AgentError(". ".join([str(error), *stuck])) from None

    def _set(self, faults: Mapping[Link, Mapping[str, Any]]) -> None:
        self._faults = dict(faults)
        for node, (namespace, _) in self._places.items():
            wanted = {self._places[to][1]: fault for (source, to), fault in faults.items() if source == node}
            sender = self._senders.get(node)
            if sender is None:
                if not wanted:
                    continue
                sender = self._senders[node] = PacketFaults(node, namespace, self._home)
            sender.set(wanted)

    def counts(self) -> dict[Link, dict[str, int]]:
        """For each link with a fault what it did since it has it (`PacketFaults.counts`)."""
        by_sender = {node: sender.counts() for node, sender in self._senders.items()}
        found = {(source, to): by_sender[source].get(self._places[to][1]) for source, to in self._faults}
        return {link: counts for link, counts in found.items() if counts is not None}

    def _take_all_away(self) -> list[str]:
        """Take every fault from every link; of nodes where that fails, why."""
        problems: list[str] = []
        for node, sender in self._senders.items():
            try:
                sender.set({})
            except AgentError as error:
                problems.append(f"What {node} sends may still have faults: {error}")
        return problems

    def forget(self, node: str) -> None:
        """Take away the faults of what a node sends, before its network namespace is given up for another.

        Raises:
            AgentError: its rules cannot be removed.
        """
        self._faults = {link: fault for link, fault in self._faults.items() if link[0] != node}
        sender = self._senders.pop(node, None)
        if sender is not None:
            sender.remove()
