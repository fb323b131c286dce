"""Faults of all links at once: if one cannot have its own, none has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from splitbrain.harness.backends.agent import disturbances
from splitbrain.harness.backends.agent.disturbances import Disturbances, Link
from splitbrain.harness.backends.agent.tools import AgentError

PLACES = {"n1": (0, "10.0.0.1"), "n2": (0, "10.0.0.2"), "n3": (0, "10.0.0.3")}
RING: dict[Link, dict[str, Any]] = {
    ("n1", "n2"): {"loss": 0.5},
    ("n2", "n3"): {"loss": 0.5},
    ("n3", "n1"): {"loss": 0.5},
}


class Senders:
    """Stands for `PacketFaults`: those of some nodes take no faults, or do not give them up."""

    refusing: ClassVar[set[str]] = set()
    keeping: ClassVar[set[str]] = set()

    def __init__(self, name: str, namespace: int, home: int) -> None:
        self.name = name
        self.faults: dict[str, Any] = {}

    def set(self, faults: Mapping[str, Any]) -> None:
        if faults and self.name in self.refusing:
            self.faults = {}
            raise AgentError(f"iptables failed for {self.name}")
        if not faults and self.name in self.keeping:
            raise AgentError(f"{self.name} is stuck")
        self.faults = dict(faults)

    def counts(self) -> dict[str, dict[str, int]]:
        return {to: {"lost": 1} for to in self.faults}


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> Disturbances:
    monkeypatch.setattr(disturbances, "PacketFaults", Senders)
    monkeypatch.setattr(Senders, "refusing", set[str]())
    monkeypatch.setattr(Senders, "keeping", set[str]())
    return Disturbances(PLACES)


def test_a_sender_that_takes_no_faults_leaves_no_link_with_one_and_its_reason_is_told(links: Disturbances) -> None:
    Senders.refusing.add("n2")
    with pytest.raises(AgentError, match=r"^iptables failed for n2$"):
        links.set(RING)
    assert links.counts() == {}
    assert list(links.held) == []
    assert faults_of(links) == {"n1": {}, "n2": {}}
    Senders.refusing.clear()
    links.set(RING)
    assert links.counts() == {link: {"lost": 1} for link in RING}


def test_a_sender_that_keeps_its_faults_meanwhile_is_named_as_well(links: Disturbances) -> None:
    Senders.refusing.add("n3")
    Senders.keeping.add("n1")
    with pytest.raises(
        AgentError, match=r"^iptables failed for n3\. What n1 sends may still have faults: n1 is stuck$"
    ):
        links.set(RING)
    assert faults_of(links)["n2"] == {}


def test_a_link_whose_sender_lost_its_fault_is_not_counted(links: Disturbances) -> None:
    links.set(RING)
    faults_of(links)["n2"].clear()
    assert set(links.counts()) == {("n1", "n2"), ("n3", "n1")}


def faults_of(links: Disturbances) -> dict[str, dict[str, Any]]:
    senders: dict[str, Senders] = vars(links)["_senders"]
    return {node: sender.faults for node, sender in senders.items()}
