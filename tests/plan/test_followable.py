"""Plans that people write or change: judged as they are, or refused in one line before anything starts."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from splitbrain.harness.campaigns.planned import play_plan
from splitbrain.harness.generators.script import ScriptedFault
from splitbrain.harness.running.plan import Plan, decode
from splitbrain.nemesis.reductions import with_nodes
from splitbrain.results.errors import UsageError
from splitbrain.workloads.catalogue import WORKLOADS, build
from tests.cli.support import ROOT
from tests.plan.mutants import FAULTS, ODD, OPS, followed, hunt, mutant, sound


def plan(workload: str = "register", **changes: Any) -> dict[str, Any]:
    found = next(plan for plan in map(sound, map(random.Random, range(99))) if plan["options"]["workload"] == workload)
    return {**found, **changes}


def refusal(changed: dict[str, Any]) -> str:
    with pytest.raises(UsageError) as refused:
        play_plan(decode(msgspec.json.encode(changed)))
    return str(refused.value)


@pytest.mark.parametrize("workload", OPS)
def test_a_sound_plan_of_every_workload_is_followed(workload: str, tmp_path: Path) -> None:
    assert followed(plan(workload), tmp_path) in (0, 2)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("pair", range(len(FAULTS)))
def test_a_sound_plan_with_every_fault_is_followed(pair: int, tmp_path: Path) -> None:
    faults = [{"at_ns": 10**8 * (2 + i), **each} for i, each in enumerate(FAULTS[pair])]
    assert followed(plan(faults=faults), tmp_path) in (0, 2)


@pytest.mark.slow
def test_mutants_of_plans_are_judged_or_refused_and_never_break_the_harness(tmp_path: Path) -> None:
    answers = hunt(0, 400, tmp_path)
    assert set(answers) <= {0, 1, 2, 254}, answers
    assert len(answers[254]) >= 100
    assert len(answers.get(0, [])) + len(answers.get(2, [])) >= 20
    rng = random.Random(1)
    assert mutant(sound(rng), rng) != sound(random.Random(1))
    assert None in ODD


READ: dict[str, Any] = {"at_ns": 5, "thread": 0, "f": "read", "key": "0"}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"ops": [{**READ, "f": "raed"}]}, "there is no function 'raed' of workload 'register' (ops[0])"),
    ({"ops": [READ, {**READ, "thread": 3}]}, "ops[1] is for thread 3"),
    ({"ops": [{**READ, "key": None}]}, "ops[0]: read is about a key"),
    *(({"ops": [{**READ, "key": key}]}, "ops[0]: read is about a key") for key in ("", "a/b", "a\nb", "a" * 5000)),
    ({"ops": [{**READ, "value": 3}]}, "ops[0]: read takes no value"),
    ({"ops": [{**READ, "f": "write", "value": "3"}]}, "ops[0]: the value of write is '3'"),
    ({"final_ops": [{**READ, "f": "cas", "value": [1]}]}, "final_ops[0]: the value of cas is [1]"),
    ({"ops": [{**READ, "mops": []}]}, "is no transaction"),
    ({"ops": [{**READ, "at_ns": 10**12}]}, "after end_ns"),
    ({"ops": [{**READ, "due_ns": 6}]}, "ops[0] is due at 6, after it begins (5)"),
    ({"final_ops": [{**READ, "due_ns": 2**63}]}, "final_ops[0] is due at 9223372036854775808, after it begins"),
    ({"final_ops": [{**READ, "at_ns": 61 * 10**9}]}, "final phase began, which lasts 60 s"),
    ({"end_ns": 603 * 10**9}, "end_ns is 603 s, and options.time_limit is 1 s: with that, give 602 s at most"),
    ({"nodes": [f"n{i}" for i in range(500)]}, "a test has 100 nodes at most, not 500"),
    ({"placement": ["n1", "n2", "n9"]}, "client thread 2 on 'n9'"),
    ({"faults": [{"at_ns": 5, "f": "explode"}]}, "faults[0]: there is no nemesis op 'explode'"),
    ({"faults": [{"at_ns": 5, "f": "start-partition", "value": {"shape": "blob"}}]}, "faults[0]: "),
    ({"faults": [{"at_ns": 5, "f": "leave"}]}, "faults[0]: leave is not an op of the nemeses"),
    ({"faults": [{"at_ns": 5, "f": "kill", "value": {"order": ["n9"]}}]}, "order names 'n9'"),
    ({"faults": [{"at_ns": 5, "f": "start"}]}, "faults[0]: start heals a kill fault, and no such fault begins before"),
    ({"faults": [{"at_ns": 9, "f": "kill"}, {"at_ns": 5, "f": "start"}]}, "faults[1]: start is due at"),
    ({"format": 99}, "upgrade splitbrain"),
    ({"end_ns": 1e300}, "this is not a plan"),
]


@pytest.mark.parametrize(("changes", "told"), REFUSED)
def test_what_cannot_be_followed_is_refused_with_its_place(changes: dict[str, Any], told: str) -> None:
    assert told in refusal(plan(**changes))
    assert "\n" not in refusal(plan(**changes))


TXN: dict[str, Any] = {"at_ns": 5, "thread": 0, "f": "txn"}
NOT_TRANSACTIONS: list[tuple[dict[str, Any], str]] = [
    (TXN, "ops[0]: txn is a transaction: give it mops"),
    ({**TXN, "mops": [{"f": "w", "key": "1", "value": 1}]}, "ops[0]: txn has reads (r) and append, not 'w'"),
    ({**TXN, "mops": [{"f": "r", "key": "a/b"}]}, "ops[0]: a micro-operation is about a key"),
    ({**TXN, "mops": [{"f": "append", "key": "1"}]}, "ops[0]: a write has one value, and a read none"),
    ({**TXN, "mops": [{"f": "r", "key": "1", "values": [1]}]}, "ops[0]: a write has one value, and a read none"),
    ({**TXN, "mops": [{"f": "r", "key": "1"}], "key": "1"}, "ops[0]: txn takes no key"),
]


def transactions(*ops: dict[str, Any]) -> dict[str, Any]:
    """A plan of list-append with these ops."""
    found = plan()
    return {**found, "options": {**found["options"], "workload": "list-append"}, "ops": list(ops), "final_ops": []}


@pytest.mark.parametrize(("op", "told"), NOT_TRANSACTIONS)
def test_micro_operations_that_cannot_be_followed_are_refused(op: dict[str, Any], told: str) -> None:
    assert told in refusal(transactions(op))


def test_a_plan_of_transactions_is_followed(tmp_path: Path) -> None:
    write = {**TXN, "mops": [{"f": "append", "key": "1", "value": 7}, {"f": "r", "key": "1"}]}
    assert followed(transactions(write, {**write, "at_ns": 9, "mops": write["mops"][1:]}), tmp_path) in (0, 2)


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_says_what_its_ops_carry(name: str) -> None:
    workload = build(name, nodes=("n1", "n2", "n3"), concurrency=3)
    assert sorted(workload.shapes) == sorted(workload.fs)


def test_what_heals_a_fault_leaves_the_plan_with_it() -> None:
    struck = ScriptedFault(at_ns=5, f="bounce", value={"fault": "bounce", "action": "start", "nodes": ["n2"]})
    healed = ScriptedFault(at_ns=6, f="stop-bounce", value={"fault": "bounce", "action": "stop"})
    large = Plan(options={}, nodes=("n1", "n2"), placement=("n1", "n2"), end_ns=9, faults=(struck, healed))
    smaller = with_nodes(large, ["n1"])
    assert smaller is not None
    assert smaller.faults == ()
    assert with_nodes(large, ["n2"]) == msgspec.structs.replace(large, nodes=("n2",), placement=("n2",))


def test_a_plan_with_every_option_wrong_is_refused() -> None:
    good = plan()["options"]
    for name, wrong in (("workload", "x"), ("nemesis", "x"), ("system", 3), ("bug", "M999"), ("nodes", "500"),
                        ("concurrency", "0"), ("rate", -1), ("time_limit", "long"), ("interval", 0), ("seed", 2**70),
                        ("world", "moon"), ("strange", 1)):  # fmt: skip
        assert refusal(plan(options={**good, name: wrong})), name


def test_the_example_of_the_documentation_judges_a_plan_that_was_changed_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "simulation.md").read_text(), flags=re.DOTALL)
    [example] = [each for each in examples if "play_plan" in each]
    [file] = re.findall(r'play_plan\("(.*?)"\)', example)
    changed = plan(versions={}, of_seed="0" * 32)
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(json.dumps(changed, indent=2))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(example, names)
    [test] = [function for name, function in names.items() if name.startswith("test_")]
    test()
