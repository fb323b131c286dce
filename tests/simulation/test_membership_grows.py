"""Worked case 7 of the analysis of quorum-progress as a simulated run: three members become five during a partition.

n5 is cut off from 2 s to 15 s, and n4 and n5 are taken in meanwhile: n1 to n4 know at once, n5 when it is back.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from splitbrain.checkers.quorum.checker import QuorumProgress
from splitbrain.checkers.verdict import Verdict
from splitbrain.harness.campaigns.compose import compose
from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.contract.test import NemesisContext, NemesisPackage, Test
from splitbrain.harness.generators.script import ScriptedFault, script_faults
from splitbrain.harness.running.simulate import Simulated, simulate
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.nemesis.effects import Effect, carry_out
from splitbrain.nemesis.grudges import all_links
from splitbrain.results.history import Op
from tests.simulation.fingerprint import options

FOUNDERS = ("n1", "n2", "n3")
FIVE = [*FOUNDERS, "n4", "n5"]
GROWS_AFTER_S = 1.5


class CutOffAndGrow:
    """Cuts n5 off (`cut`), has n4 and n5 taken in some seconds later, and mends the links (`mend`)."""

    fs = frozenset({"cut", "mend"})
    faults: frozenset[FaultKind] = frozenset({"cut"})

    def __init__(self) -> None:
        self._growing: asyncio.Task[None] | None = None

    async def invoke(self, context: NemesisContext, op: Op) -> Op:
        async def act(effect: Effect) -> None:
            effect.target = "n5"
            links = frozenset(link for link in all_links(FIVE) if "n5" in link)
            await context.deployment.cut(links if op.f == "cut" else frozenset())
            if op.f == "cut":
                self._growing = asyncio.create_task(self._grow(context))
            elif self._growing is not None:
                await self._growing

        return await carry_out(context, op, act)

    async def heal(self, context: NemesisContext) -> None:
        await context.deployment.cut(frozenset())

    async def _grow(self, context: NemesisContext) -> None:
        members = context.test.system.capabilities.membership
        assert members is not None
        await context.runtime.clock.sleep_ns(round(GROWS_AFTER_S * 1e9))
        for node in ("n4", "n5"):
            for _ in range(20):
                try:
                    assert await members.add(context.deployment, "n2", node) == node
                    break
                except DefiniteError:
                    await context.runtime.clock.sleep_ns(100_000_000)
            members.settle(node)


def growing(seed: int) -> Test:
    test = compose(options(seed, "register", "none", seconds=28.0))
    faults = [
        ScriptedFault(at_ns=2 * 10**9, f="cut", value={"fault": "partition", "action": "start"}),
        ScriptedFault(at_ns=15 * 10**9, f="mend", value={"fault": "partition", "action": "stop"}),
    ]
    package = NemesisPackage(
        name="grow",
        nemesis=CutOffAndGrow(),
        generator=script_faults(faults),
        final_generator=None,
        faults=CutOffAndGrow.faults,
    )
    return dataclasses.replace(test, system=Metadata(founders=FOUNDERS), nemesis=package, rate=60.0)


@cache
def run(seed: int) -> tuple[Simulated, Verdict]:
    test = growing(seed)
    simulated = simulate(test, world="lan")
    assert simulated.failure is None
    (spec,) = [spec for spec in test.workload.checkers if spec.name == "quorum-progress"]
    return simulated, QuorumProgress().check(simulated.history, simulated.telemetry, spec.options)


def windows(seed: int) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = run(seed)[1].figures["windows"]
    return rows


def configurations(row: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return sorted(tuple(members) for members in row["configurations"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_7_both_configurations_are_in_force_until_every_node_holds_the_new_one(seed: int) -> None:
    both = sorted([FOUNDERS, tuple(FIVE)])
    rows = windows(seed)
    held = [configurations(row) for row in rows]
    cut_off = [row for row in rows if row["cut"]]
    assert configurations(rows[0]) == configurations(cut_off[0]) == [FOUNDERS]
    assert configurations(cut_off[-1]) == both
    assert cut_off[-1]["end_s"] - cut_off[-1]["start_s"] > 10
    mended = rows[rows.index(cut_off[-1]) + 1]
    assert (mended["cut"], configurations(mended)) == ([], both), "n5 has not heard of it when the links are mended"
    assert held[-1] == [tuple(FIVE)]
    new = next(number for number, now in enumerate(held) if FOUNDERS not in now)
    assert all(now == [tuple(FIVE)] or tuple(FIVE) in now for now in held[new:]), "there is no way back"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_7_who_may_and_must_answer_follows_from_both(seed: int) -> None:
    verdict = run(seed)[1]
    assert (verdict.valid, verdict.anomalies) == ("true", ())
    rules = verdict.figures["rules"]
    assert {rules[rule] for rule in ("Q2", "Q3", "Q5", "Q6", "Q7", "Q10")} == {"held"}
    *_, cut_off = (row for row in windows(seed) if row["cut"])
    assert cut_off["cores"] == [FIVE[:4]]
    assert "n5" not in cut_off["possibly_served"]
    assert cut_off["nodes"]["n4"]["answered"] > 20
    assert cut_off["Q3"] == "held"
    known = next(row for row in windows(seed) if configurations(row) == [tuple(FIVE)])
    assert (known["cores"], known["capable"], known["Q3"]) == ([FIVE], FIVE, "held")
    assert known["nodes"]["n5"]["answered"] > 20


@pytest.mark.slow
def test_a_run_with_changes_of_members_is_a_function_of_its_seed() -> None:
    once, again = run(1)[0], simulate(growing(1), world="lan")
    assert (once.history_hash, once.fingerprint, once.lines) == (again.history_hash, again.fingerprint, again.lines)
