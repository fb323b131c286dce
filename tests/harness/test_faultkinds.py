"""Which kinds of fault a fault is made of, and what can be done to a system."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.harness.contract.faultkinds import INJECTED_KINDS, of_clock, of_disk, of_link, supported
from splitbrain.harness.contract.faults import ClockFault, DiskFault, LinkFault
from splitbrain.harness.contract.test import System
from splitbrain.harness.systems.etcd import Etcd
from splitbrain.harness.systems.metadata import Metadata
from tests.harness.worlds import MemoryBackend, MemoryDeployment, MemorySystem


def test_a_fault_is_made_of_what_it_does() -> None:
    assert of_link(LinkFault(delay_ms=1, jitter_ms=1, mtu=100)) == ("delay", "mtu")
    assert of_disk(DiskFault(rot=1, fails=True)) == ("disk-rot", "disk-fails")
    assert of_clock(ClockFault(offset_ms=5, strobe_ms=10)) == ("clock-strobe",)
    assert of_clock(ClockFault(offset_ms=5, drift_ppm=10)) == ("clock-jump", "clock-drift")
    assert of_link(LinkFault()) == of_disk(DiskFault()) == of_clock(ClockFault()) == ()


@pytest.mark.parametrize(("system", "works"), [(Metadata(), True), (Etcd(), False)])
def test_what_a_system_is_immune_to_is_not_supported_wherever_it_lives(system: System, works: bool) -> None:
    found = supported(MemoryBackend(MemoryDeployment()), system)
    assert found["clock-jump"].works is works
    assert found["cut"].works
    assert ("libfaketime" in found["clock-jump"].how) is not works


def test_members_change_only_where_the_system_lets_them() -> None:
    backend = MemoryBackend(MemoryDeployment())
    assert supported(backend, Etcd())["membership"].works
    assert supported(backend, Metadata())["membership"].works
    fixed = supported(backend, MemorySystem())["membership"]
    assert not fixed.works
    assert fixed.how == "the members of system 'memory' are fixed: none can leave or join while it runs."
    assert of_disk(DiskFault(wipe=True)) == ("membership",)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("transfer", "the leader of system 'memory' cannot be asked to hand leadership over."),
        ("groups", "nodes of system 'memory' take part in one cluster only."),
        ("learners", "every member of system 'memory' votes from the beginning."),
    ],
)
def test_what_a_system_is_asked_for_works_where_it_can_be_asked_whatever_the_backend_says(kind: Any, why: str) -> None:
    backend = MemoryBackend(MemoryDeployment())
    assert supported(backend, Metadata())[kind].works
    assert supported(backend, Etcd())[kind].works is (kind == "transfer")
    found = supported(backend, MemorySystem())[kind]
    assert (found.works, found.how) == (False, why)
    assert kind not in INJECTED_KINDS
