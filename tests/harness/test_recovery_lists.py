"""After changes of members a system is usable only once all nodes list all nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import pytest
from virtual import in_virtual_time
from worlds import FakeClient, MemoryDeployment, MemorySystem, make_test

from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.running.recovery import until_usable
from tests.nemesis.support import Members

ALL = {"n1": "n1", "n2": "n2", "n3": "n3"}


class Lists(Members):
    """What each node lists; None if it does not answer."""

    def __init__(self, lists: dict[str, dict[str, str] | None]) -> None:
        super().__init__()
        self._lists = lists

    async def members(self, deployment: Any, node: str) -> dict[str, str]:
        found = self._lists.get(node, ALL)
        if found is None:
            raise DefiniteError("it is deaf")
        return found


@pytest.mark.parametrize(
    ("lists", "problems"),
    [
        ({}, {}),
        ({"n2": {"n1": "n1", "n2": "n2"}}, {"n2": "lists n1 n2 as members"}),
        (
            {"n2": {"n1": "n1", "n2": "n2", "n3#1": "n3"}},
            {"n2": "lists n1 n2 n3#1 as members, others n1 n2 n3"},
        ),
        ({"n3": None}, {"n3": "does not list the members: it is deaf"}),
        (
            dict.fromkeys(ALL, cast("dict[str, str] | None", {"n1": "n1"})),
            dict.fromkeys(ALL, "lists n1 as members"),
        ),
    ],
    ids=["all alike", "one lacks a member", "one knows another id", "one is silent", "alike and not all"],
)
def test_nodes_that_list_other_members_are_named(
    lists: dict[str, dict[str, str] | None], problems: dict[str, str]
) -> None:
    system = MemorySystem()
    system.capabilities = dataclasses.replace(system.capabilities, membership=Lists(lists))
    test = dataclasses.replace(make_test(FakeClient()), system=system)

    def problems_found(*, lists_members: bool) -> Mapping[str, str]:
        found = in_virtual_time(
            lambda clock: until_usable(test, MemoryDeployment(), clock, 0.3, lists_members=lists_members)
        )
        return found.problems

    assert problems_found(lists_members=True) == problems
    assert problems_found(lists_members=False) == {}
