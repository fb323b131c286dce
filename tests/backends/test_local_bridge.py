"""Cuts on the bridge expire by themselves, which is told, and a refresh keeps them and their counts."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.harness.backends.agent import bridge
from tests.backends.namespaces import EXPIRES_S, course_of_a_cut, seen_in_namespaces

pytestmark = pytest.mark.cluster


async def scenario() -> dict[str, Any]:
    bridge.CUT_EXPIRES_S = EXPIRES_S
    bridge.REFRESH_AFTER_S = 0
    fabric = bridge.Bridge(["a", "b"])
    fabric.lay_out()
    return await course_of_a_cut(fabric)


@pytest.mark.slow
def test_a_cut_that_nobody_refreshes_heals_by_itself_and_is_missed() -> None:
    assert seen_in_namespaces(scenario) == {
        "cut": [False, True],
        "refreshed": [False, True],
        "counted": [["a", "b", 1]],
        "left alone": [True, True],
        "missed": 2 * ["a -> b is no longer cut"],
        "cut again": [False, False],
    }
