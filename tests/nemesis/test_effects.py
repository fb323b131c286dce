"""What a nemesis op did: what was hit, or that there was nothing to hit, as histories have always recorded it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from splitbrain.harness.contract.marks import counted
from splitbrain.nemesis.effects import Effect, carry_out
from splitbrain.results.errors import NemesisError
from splitbrain.results.nemesisop import said
from tests.nemesis.support import Nodes, context, nemesis_op, run

ROOT = Path(__file__).parents[2]
PARTS = [
    path
    for pattern in ("nemesis/*.py", "examples/*.py", "docs/*.md", "harness/campaigns/starters/*.py")
    for path in sorted(ROOT.glob(pattern))
    if path.name != "effects.py"
]


def test_nothing_to_hit_is_stored_as_none_with_the_reason() -> None:
    effect = Effect()
    effect.nothing("no node was running")
    assert effect.target == "none: no node was running"


def test_nodes_that_are_hit_are_named_and_without_any_the_reason_is_given() -> None:
    effect = Effect()
    effect.hits(["n2", "n1"], otherwise="no node was running")
    assert effect.target == "n2 n1"
    effect.hits([], otherwise="no node was running")
    assert effect.target == "none: no node was running"


@pytest.mark.parametrize(
    ("target", "problem", "marked"),
    [
        ("n1", "", False),
        ("nobody: no node was running", "", True),
        ("none: no node was running", "", True),
        ("", "", True),
        ("", "it failed before it had a target", False),
    ],
)
def test_a_fault_without_a_node_is_marked(target: str, problem: str, marked: bool) -> None:
    async def act(effect: Effect) -> None:
        if problem:
            raise NemesisError(problem)
        effect.target = target

    with counted() as counts:
        done = run(carry_out(context(Nodes()), nemesis_op("kill", fault="kill", action="start"), act))
    assert bool(counts["no node for the fault"]) is marked
    assert done.type == ("info" if problem else "ok")
    assert problem or said(done.value).is_hit is not marked


def test_no_part_and_no_guide_writes_the_stored_word_itself() -> None:
    assert len(PARTS) > 30
    assert not [str(path) for path in PARTS if re.search(r'"none:|f"none|`nobody|"nobody|: nobody:', path.read_text())]
