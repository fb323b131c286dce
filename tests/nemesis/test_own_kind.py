"""A kind of fault of another package is one record: it is drawn, scheduled, judged, shown and shrunk like our own."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from examples.own_nemesis import EXILE, Exile, ExileRequest
from splitbrain.harness.campaigns.compose import RunOptions, backend_of, command_line, compose
from splitbrain.harness.campaigns.planned import test_of as composed_from
from splitbrain.harness.campaigns.record import run_and_judge
from splitbrain.harness.campaigns.swarm import asked_for, draw
from splitbrain.harness.generators.script import ScriptedFault
from splitbrain.harness.running.plan import load
from splitbrain.nemesis import catalogue
from splitbrain.nemesis.kinds import Injection, Kind, Ways, without_nodes
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.reductions import with_nodes
from splitbrain.nemesis.requests import complete, needs_of
from splitbrain.results.errors import UsageError
from splitbrain.results.nemesisop import Request, fault_in
from tests.nemesis.support import FIVE

NAME = "examples.own_nemesis:EXILE"


def options(**changes: Any) -> RunOptions:
    """Of a simulated run of three nodes."""
    given = {
        "workload": "register",
        "nemesis": NAME,
        "system": "metadata",
        "backend": "sim",
        "bug": "",
        "nodes": "3",
        "concurrency": "1n",
        "rate": 50.0,
        "time_limit": 12.0,
        "interval": 2.0,
        "op_timeout": 2.0,
        "recovery": 20.0,
        "seed": 1,
    }
    return RunOptions.of(**{**given, **changes})


def test_it_is_drawn_judged_and_shown(tmp_path: Path) -> None:
    chosen = options()
    run = run_and_judge(compose(chosen), backend_of(chosen), tmp_path).run
    verdicts = {each["checker"]: each for each in json.loads((run.path / "verdict.json").read_text())["verdicts"]}
    assert verdicts["coverage"]["valid"] is True
    windows = verdicts["coverage"]["figures"]["windows"]
    assert {window["fault"] for window in windows} == {"exile"}
    assert all(window["verified"] for window in windows)
    windows = verdicts["quorum-progress"]["figures"]["windows"]
    assert any(window["cut"] for window in windows), "quorum progress knows which links were cut"
    assert ">exile</text>" in (run.path / "report.html").read_text()
    assert run.read_test()["options"]["nemesis"] == NAME
    plan = load(run.plan_path)
    assert {fault.f for fault in plan.faults} == {"exile", "return"}
    again = composed_from(options(**plan.options), plan)
    assert again.nemesis.faults == {"cut"}
    assert NAME in command_line(chosen)


def test_its_names_have_weights_and_add_up() -> None:
    assert catalogue.weights([f"{NAME}:3", "kill:2", f"{NAME}_LEADER"]) == {NAME: 3, "kill": 2, f"{NAME}_LEADER": 1}
    package = catalogue.build([f"{NAME}:3", f"{NAME}_LEADER", "kill"])
    assert package.kinds == ("exile", "kill"), "links are healed before nodes"
    assert catalogue.kinds([NAME, f"{NAME}_LEADER"]) == ("exile",)


@pytest.mark.parametrize("weight", ["0", "21", "1.5"])
def test_a_weight_that_is_none_is_refused(weight: str) -> None:
    with pytest.raises(UsageError, match="a weight is a whole number from 1 to 20"):
        catalogue.weights([f"{NAME}:{weight}"])


def test_a_hunt_draws_it() -> None:
    nothing: dict[str, Any] = {
        "concurrency": None,
        "rate": None,
        "time_limit": None,
        "interval": None,
        "op_timeout": None,
    }
    asked = asked_for(
        workload="register", nemesis=f"{NAME},kill", nodes="3,5", system="metadata", bug="", world="lan", **nothing
    )
    drawn = [draw(seed, asked).nemesis for seed in range(30)]
    assert {name for names in drawn for name in names.split(",")} == {NAME, "kill"}


# --- schedules --------------------------------------------------------------------------------------------------------


def test_a_schedule_may_have_its_ops_if_nemesis_names_it(tmp_path: Path) -> None:
    path = tmp_path / "of.schedule"
    path.write_text('[2, "kill", {"spec": "one"}]\n[3, "exile", {"spec": "leader", "one_way": true}]\n[5, "return"]\n')
    chosen = options(schedule=str(path), nemesis=f"{NAME},pause", interval=None)
    assert chosen.nemesis == f"{NAME},kill"
    assert chosen.scheduled[1].value == {
        "fault": "exile",
        "action": "start",
        "spec": "leader",
        "one_way": True,
        "order": ["n1", "n2", "n3"],
    }
    assert compose(chosen).nemesis.faults == {"cut", "kill"}
    assert f"--nemesis {NAME},kill" in command_line(chosen)
    with pytest.raises(UsageError, match="nemesis op 'exile'"):
        options(schedule=str(path), nemesis="kill", interval=None)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"onw_way": True}, "field 'onw_way' of exile. Did you mean 'one_way'"),
        ({"one_way": "yes"}, r"Expected `bool`, got `str` - at `\$.one_way`"),
        ({"spec": "leeder"}, "node spec 'leeder' of exile. Did you mean 'leader'"),
        ({"order": ["n9"]}, "order names 'n9'"),
        ("leader", 'needs a mapping such as {"spec": "leader", "one_way": true}'),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(value: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        complete("exile", value, FIVE, [NAME])


def test_what_it_needs_is_known_by_its_name_only() -> None:
    assert needs_of("exile", {"spec": "one"}, [NAME]) == {"cut"}
    assert needs_of("return", None, [NAME]) == needs_of("exile", {"spec": "one"}) == frozenset()


# --- shrinking --------------------------------------------------------------------------------------------------------


def test_its_requests_lose_nodes_as_it_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "of.schedule"
    path.write_text('[2, "exile", {"spec": "one"}]\n[4, "return"]\n')
    chosen = options(schedule=str(path), interval=None)
    plan = load_plan(chosen)
    fewer = with_nodes(plan, ["n1", "n3"])
    assert fewer is not None
    assert fewer.faults[0].value["order"] == ["n1", "n3"]

    def never_less(value: Any, gone: Any) -> Any:
        return without_nodes(value, gone) if fault_in(value) != "exile" else None

    stubborn = dataclasses.replace(EXILE, without=never_less)
    monkeypatch.setattr("examples.own_nemesis.EXILE", stubborn)
    without = with_nodes(plan, ["n1", "n3"])
    assert without is not None
    assert without.faults == ()


def load_plan(chosen: RunOptions) -> Any:
    """A plan of these options, with their faults and without ops."""
    from splitbrain.harness.running.plan import Plan

    return Plan(
        options=msgspec.to_builtins(chosen),
        nodes=("n1", "n2", "n3"),
        placement=("n1",),
        end_ns=6_000_000_000,
        faults=tuple(ScriptedFault(at_ns=each.at_ns, f=each.f, value=each.value) for each in chosen.scheduled),
        ops=(),
        final_ops=(),
        versions={},
    )


# --- records that contradict themselves or others ---------------------------------------------------------------------


class KillRequest(ExileRequest, tag="kill", frozen=True, kw_only=True):
    """Named like one of ours."""


NOT_A_KIND = Exile(Ledger())
ANOTHER_KILL = dataclasses.replace(EXILE, request=KillRequest)
OP_OF_OURS = dataclasses.replace(EXILE, start_f="kill")
ANOTHER_EXILE = dataclasses.replace(EXILE, takes_s=1.0)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("NOT_A_KIND", "it is neither a splitbrain.nemesis.kinds.Kind"),
        ("ANOTHER_KILL", "there is a kind of fault 'kill' already"),
        ("OP_OF_OURS", "there is an op 'kill' already"),
        ("NOWHERE", "cannot be imported: module '.*' has no attribute 'NOWHERE'"),
    ],
)
def test_what_is_no_kind_of_its_own_is_refused(name: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        catalogue.build([f"{__name__}:{name}"])


def test_two_kinds_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two of them have a kind of fault 'exile'"):
        catalogue.build([NAME, f"{__name__}:ANOTHER_EXILE"])


def test_a_record_that_contradicts_itself_is_refused_when_it_is_made() -> None:
    with pytest.raises(UsageError, match="cannot start and stop it"):
        dataclasses.replace(EXILE, stop_f="exile")
    with pytest.raises(UsageError, match="something to draw from"):
        dataclasses.replace(EXILE, ways={"exile": Ways(((),), "nothing")})

    class Untagged(Request, frozen=True, kw_only=True):
        """It has the name of no kind."""

    with pytest.raises(UsageError, match="with tag= the kind's name"):
        Kind(
            request=Untagged,
            nemesis=Exile,
            start_f="a",
            stop_f="b",
            example="{}",
            needs=lambda _: (),
            ways={"a": Ways(((Injection({}),),), "")},
        )


# --- the documentation ------------------------------------------------------------------------------------------------


def test_the_nemesis_of_the_documentation_is_the_one_that_is_tested() -> None:
    root = Path(__file__).resolve().parents[2]
    code = (root / "examples" / "own_nemesis.py").read_text()
    assert code[code.index("class ExileRequest") :] in (root / "docs" / "extending.md").read_text()
