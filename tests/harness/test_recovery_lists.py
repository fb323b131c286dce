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


class Waiting:
    """Learners as each node lists them: by id whether it gets a vote by itself; None if the node does not answer."""

    def __init__(self, lists: dict[str, dict[str, bool] | None]) -> None:
        self._lists = lists

    async def add(self, deployment: Any, asked: str, node: str) -> str:
        raise NotImplementedError

    async def promote(self, deployment: Any, asked: str, member: str) -> None:
        raise NotImplementedError

    async def listed(self, deployment: Any, node: str) -> dict[str, bool]:
        found = self._lists.get(node, {})
        if found is None:
            raise DefiniteError("it is deaf")
        return found


@pytest.mark.parametrize(
    ("lists", "problems"),
    [
        ({}, {}),
        ({"n2": {"n3": False}}, {}),
        ({"n2": {"n1": False, "n3": True}}, {"n2": "lists n3 as learners, which are to vote"}),
        ({"n2": None}, {}),
    ],
    ids=["none", "one that stays one", "one that is to vote", "a node that does not say"],
)
def test_ra29_m52_a_learner_that_is_to_vote_and_does_not_is_a_problem(
    lists: dict[str, dict[str, bool] | None], problems: dict[str, str]
) -> None:
    system = MemorySystem()
    system.capabilities = dataclasses.replace(system.capabilities, membership=Lists({}), learners=Waiting(lists))
    test = dataclasses.replace(make_test(FakeClient()), system=system)
    found = in_virtual_time(lambda clock: until_usable(test, MemoryDeployment(), clock, 0.3, lists_members=True))
    assert found.problems == problems
