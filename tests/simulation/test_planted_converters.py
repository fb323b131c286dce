"""Converters that lose a kind of entities, or a part of their values, are convicted by the workload `migration`.

The nodes run in this process, so that the registry that they copy entities with can be another one. The same runs with
the true registry pass, also with faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from splitbrain.checkers.migration import MigrationChecker
from splitbrain.checkers.verdict import Verdict
from splitbrain.cluster.entities.records import NO_ARGUMENTS
from splitbrain.cluster.migration.converters import Converters, Path, Write, of_entities
from splitbrain.cluster.tables.entities import layout
from splitbrain.cluster.tables.records import Change, Insert, Put
from splitbrain.cluster.twostores import node
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.brokers import ENTITIES_WITH_VALUES
from splitbrain.harness.running.simulate import simulate
from splitbrain.workloads.migration import KINDS, OF_OWNED, OF_PASSING, VALUES
from tests.cli.test_arguments import OPTIONS
from tests.simulation.migrations import case, run

Spoil = Callable[[str, Any], Any]
"""Of a key and a value of one table, the value that is copied; None leaves the record out."""


class Spoiled(Converters):
    """The converters of entities, which are given other values of one table."""

    def __init__(self, table: str, spoil: Spoil) -> None:
        super().__init__()
        self._true = of_entities()
        self._table = table
        self._spoil = spoil

    @property
    def roots(self) -> tuple[Path, ...]:
        return self._true.roots

    def ordered(self, contents: Mapping[str, Mapping[str, Sequence[Any]]]) -> list[Change]:
        return self._true.ordered(contents)

    def writes(self, changes: Iterable[Change]) -> list[Write]:
        return self._true.writes(found for each in changes if (found := self._spoiled(each)) is not None)

    def _spoiled(self, change: Change) -> Change | None:
        if change.item.table != self._table or not isinstance(change, Put | Insert):
            return change
        value = self._spoil(change.item.key, change.value)
        return None if value is None else msgspec.structs.replace(change, value=value)


def blank(**fields: Any) -> Spoil:
    return lambda _, value: {**value, **fields}


def swapped(one: str, other: str) -> Spoil:
    return lambda _, value: {**value, one: value[other], other: value[one]}


def none(_: str, value: Any) -> None:
    del value


def without(chosen: Callable[[str], bool]) -> Spoil:
    """None of those whose key is one of these."""
    return lambda key, value: None if chosen(key) else value


def component(key: str) -> str:
    """Of a parameter or a policy; "" for a parameter of the cluster."""
    return key.split("/")[1] if "/" in key else ""


def of_policies(spoil: Spoil, of: str = layout.POLICY) -> Spoil:
    return lambda key, value: spoil(key, value) if component(key) == of else value


def of_parameters(key: str) -> bool:
    return component(key) not in ("", layout.POLICY, layout.OPERATOR_POLICY)


PLANTED: dict[str, tuple[str, Spoil]] = {
    "no virtual hosts' tags": (layout.VHOST, blank(tags=[])),
    "no hashes of passwords": (layout.USER, blank(password_hash="")),
    "no users' tags": (layout.USER, blank(tags=[])),
    "no permissions": (layout.USER_PERMISSION, none),
    "blank permissions": (layout.USER_PERMISSION, blank(configure="", write="", read="")),
    "permissions to read that are those to write": (layout.USER_PERMISSION, swapped("read", "write")),
    "no topic permissions": (layout.TOPIC_PERMISSION, none),
    "blank topic permissions": (layout.TOPIC_PERMISSION, blank(write="", read="")),
    "swapped flags of exchanges": (layout.EXCHANGE, swapped("durable", "internal")),
    "exchanges that stay": (layout.EXCHANGE, blank(auto_delete=False)),
    "no arguments of exchanges": (layout.EXCHANGE, blank(arguments=NO_ARGUMENTS)),
    "exchanges of another type": (layout.EXCHANGE, blank(type="headers")),
    "no arguments of queues": (layout.QUEUE, blank(arguments=NO_ARGUMENTS)),
    "durable queues": (layout.QUEUE, blank(durable=True)),
    "queues without a node": (layout.QUEUE, blank(node="")),
    "queues on one node": (layout.QUEUE, blank(node="m0")),
    "queues for everybody": (layout.QUEUE, blank(owner=None)),
    "no arguments of bindings": (layout.ROUTE, blank(arguments=NO_ARGUMENTS)),
    "policies without a definition": (layout.PARAMETERS, of_policies(blank(definition={}))),
    "policies without a pattern": (layout.PARAMETERS, of_policies(blank(pattern=""))),
    "policies of one priority": (layout.PARAMETERS, of_policies(blank(priority=0))),
    "no operator policies": (layout.PARAMETERS, of_policies(none, layout.OPERATOR_POLICY)),
    "operator policies without a definition": (
        layout.PARAMETERS,
        of_policies(blank(definition={}), layout.OPERATOR_POLICY),
    ),
    "no parameters of virtual hosts": (layout.PARAMETERS, without(of_parameters)),
    "no parameters of the cluster": (layout.PARAMETERS, without(lambda key: not component(key))),
    "blank parameters": (layout.PARAMETERS, lambda key, value: {**value, "value": 0} if "value" in value else value),
    "no states of nodes": (layout.MAINTENANCE, none),
    "regular nodes": (layout.MAINTENANCE, blank(state="regular")),
}

SEEDS = 8
"""At most so many runs a planted converter may take: an entity that it spoils has to be there when they move."""


def judged(seed: int) -> Verdict:
    given = {
        "backend": "sim",
        "workload": "migration",
        "nemesis": "none",
        "nodes": "3",
        "concurrency": "3n",
        "time_limit": 2.5,
        "rate": 150.0,
        "seed": seed,
    }
    left = simulate(compose(RunOptions.of(**{**OPTIONS, **given})))
    assert left.failure is None
    return MigrationChecker().check(left.history, {})


def convicted(planted: str, patched: pytest.MonkeyPatch) -> Verdict:
    """The verdict on the first run that is not right."""
    table, spoil = PLANTED[planted]

    def spoiled(_: object) -> Converters:
        return Spoiled(table, spoil)

    patched.setattr(node, "of_entities", spoiled)
    for seed in range(1, SEEDS + 1):
        found = judged(seed)
        if found.valid == "false":
            return found
    pytest.fail(f"{planted}: {SEEDS} runs without a violation")


def check_convicted(planted: str, patched: pytest.MonkeyPatch) -> None:
    found = convicted(planted, patched)
    assert set(found.anomalies) <= {"lost", "changed", "returned"}
    assert {"lost", "changed"} & set(found.anomalies), found.sentence


@pytest.mark.sampled(3)
@pytest.mark.parametrize("planted", ["blank permissions", "no states of nodes", "queues for everybody"])
def test_a_converter_that_loses_values_or_a_kind_is_convicted(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_convicted(planted, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED)
def test_every_planted_converter_is_convicted(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_convicted(planted, monkeypatch)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_true_converters_pass(seed: int) -> None:
    found = judged(seed)
    assert found.valid == "true", found.sentence


@pytest.mark.slow
@pytest.mark.parametrize("first", range(300, 360, 10))
def test_the_true_converters_pass_with_a_fault_at_a_step(first: int) -> None:
    """Some runs show too little of one of the stores to pass; none is wrong."""
    verdicts = [MigrationChecker().check(run(case(seed)).history, {}) for seed in range(first, first + 10)]
    assert [found.sentence for found in verdicts if found.valid == "false"] == []
    assert sum(found.valid == "true" for found in verdicts) >= 8


def test_every_kind_is_declared_with_every_field_of_its_value() -> None:
    assert set(KINDS) == {*VALUES, "binding"} == set(ENTITIES_WITH_VALUES)
    for kind, declared in VALUES.items():
        values = (*declared, *{"exchange": [OF_PASSING], "queue": [OF_OWNED]}.get(kind, ()))
        assert {tuple(value) for value in values} == {ENTITIES_WITH_VALUES[kind]}
        for field in ENTITIES_WITH_VALUES[kind]:
            assert len({repr(value[field]) for value in values}) > 1, (kind, field)
