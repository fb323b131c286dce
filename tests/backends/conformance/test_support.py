"""A backend says what it can do, all of it is measured here, and what a test did not ask for is refused by name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import pytest

from splitbrain.harness.backends.catalogue import BACKENDS, build
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.faultkinds import INJECTED_KINDS
from splitbrain.harness.contract.faults import FaultKind
from splitbrain.results.errors import UsageError
from tests.backends.conformance import test_clocks, test_disks, test_packets
from tests.backends.conformance.adapters import REAL, ROWS
from tests.backends.conformance.rows import Row
from tests.backends.support import GossipSystem, gossip_test, refuses_what_was_not_asked_for

pytestmark = pytest.mark.cluster

TESTS: Final = Path(__file__).parents[2]

ELSEWHERE: Final[Mapping[FaultKind, Path]] = {
    "client-links": TESTS / "nemesis" / "test_clients.py",
    "moment": TESTS / "simulation" / "test_moments.py",
}
"""Kinds that few backends have, with what measures them there."""

MEASURED: set[FaultKind] = {
    "cut",
    "kill",
    "stop",
    "pause",
    "cpu",
    *test_packets.MEASUREMENTS,
    *test_disks.MEASUREMENTS,
    *test_clocks.MEASUREMENTS,
    *ELSEWHERE,
}


def test_what_is_measured_elsewhere_is_there() -> None:
    assert all(path.is_file() for path in ELSEWHERE.values())


def test_every_backend_has_a_row() -> None:
    assert {adapter.backend_name for adapter in ROWS.values()} == set(BACKENDS)


@pytest.mark.slow
def test_what_a_backend_says_it_can_do_is_measured(row: Row) -> None:
    assert set(row.works()) <= MEASURED
    assert set(row.supported) == set(INJECTED_KINDS)
    assert all(found.how for found in row.adapter.backend().support().values())


@pytest.mark.slow
@pytest.mark.parametrize("row", REAL, indirect=True)
def test_what_a_test_did_not_ask_for_is_refused_by_name(row: Row, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with row.apart(tmp_path) as nodes:
            await refuses_what_was_not_asked_for(nodes.deployment)

    asyncio.run(scenario())


@pytest.mark.parametrize("backend", ["local", "docker"])
@pytest.mark.parametrize("name", ["", "../n1", "a/b", "-n", "n1\n", "x" * 64])
def test_names_that_cannot_be_those_of_a_folder_and_a_host_are_refused(backend: str, name: str, tmp_path: Path) -> None:
    test = gossip_test(GossipSystem("tcp"), [name])
    with pytest.raises(UsageError, match="cannot be a node's name"):
        asyncio.run(cast(Any, build(backend).deploy(test, tmp_path / "run", cast(Runtime, None))))
    assert list(tmp_path.iterdir()) == []
