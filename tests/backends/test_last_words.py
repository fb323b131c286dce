"""The status of a node that ended has the line of its log that says why."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from splitbrain.harness.backends.shared.channel import Asked
from splitbrain.harness.backends.shared.deployed import CHARACTERS_SHOWN, AgentNode, LastWords

LOG = f"{'no space left, ' * 40}\nstopping {'x' * 400} stopped\n"


class Ended:
    """An agent whose node has ended by itself."""

    async def ask(self, op: str, **_: Any) -> dict[str, Any]:
        assert op == "status"
        return {"state": "stopped", "life": 1, "evidence": {"exit": "exit code 1", "by_itself": True}}


def first_line(log: str) -> str:
    return log.splitlines()[0]


def nothing(_: str) -> str:
    return ""


@pytest.mark.parametrize(
    ("words", "begins", "ends"),
    [
        (None, "xxx", "x stopped"),
        (first_line, "no space left, no space", ","),
        (nothing, "xxx", "x stopped"),
    ],
)
def test_a_system_finds_the_line_or_else_it_is_the_end_of_the_last_one(
    words: LastWords, begins: str, ends: str
) -> None:
    async def logged() -> str:
        return LOG

    status = asyncio.run(AgentNode("n1", cast(Asked, Ended()), logged, words).status())
    said = status.evidence["log"]
    assert said.startswith(begins)
    assert said.rstrip().endswith(ends)
    assert len(said) <= CHARACTERS_SHOWN
