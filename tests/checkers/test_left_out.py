"""Ops whose function a checker does not know are named; a verdict on nothing else is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pytest

from splitbrain.checkers import engine, left_out
from splitbrain.checkers.counter import CounterChecker
from splitbrain.checkers.coverage.judged import OF_THE_RUN
from splitbrain.checkers.registry import CHECKERS, checker
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import TELEMETRY_SCHEMA
from splitbrain.results.errors import UsageError
from splitbrain.results.history import HARNESS
from splitbrain.results.reasons import Code

from .support import Script

STRANGE: Final = "no-such-function"
SAID: Final = f"3 ops of the function '{STRANGE}' are not judged by this checker."

OF_ALL_OPS: Final = frozenset({"quorum-progress"})
"""Checkers that judge whether ops were acknowledged, whatever their function."""

REFUSES: Final = frozenset({"linearizable", "session"})
"""Checkers that raise an error instead."""

REQUIRED: Final[Mapping[str, Mapping[str, Any]]] = {
    "linearizable": {"model": "register"},
    "poison": {"limit": 1},
    "dead-letter": {"limit": 1},
    "replicas": {"target": 3},
}

KNOWN: Final[Mapping[str, tuple[tuple[str, Any, Any], ...]]] = {
    "set": (("add", 1, 1), ("read", None, [1])),
    "declare": (("create", 1, 1), ("read", None, 1)),
    "counter": (("increment", 1, 1), ("read", None, 1)),
    "bank": (("transfer", {}, {}), ("read", None, {"0": 5})),
    "long-fork": (("write", 0, 0), ("read", None, [1, None])),
    "queue": (("enqueue", 1, 1), ("drain", None, [1]), ("drain", None, [])),
    "stream": (("publish", 1, 0), ("fetch", 0, {"values": [1], "end": 1})),
}
"""Ops that these checkers know."""


def judge_one(name: str, script: Script) -> Verdict:
    spec = CheckerSpec(name, dict(REQUIRED.get(name, {})))
    [found] = engine.judge(script.table(), [spec], TELEMETRY_SCHEMA.empty_table())
    return found


def judges_clients(name: str) -> bool:
    return name not in OF_THE_RUN and name not in OF_ALL_OPS and checker(name).partition != "telemetry"


@pytest.mark.parametrize("name", [name for name in CHECKERS if judges_clients(name)])
def test_no_checker_passes_over_ops_that_it_does_not_know(name: str) -> None:
    script = Script()
    script.event(HARNESS, "info", "phase", {"phase": "faults"})
    for number in range(3):
        script.call(0, STRANGE, number, key="k")
    if name in REFUSES:
        with pytest.raises(UsageError, match=STRANGE):
            judge_one(name, script)
        return
    found = judge_one(name, script)
    assert found.valid != "false"
    assert SAID in found.sentence
    assert SAID in [reason.sentence for reason in found.inconclusive if reason.code == Code.NOT_JUDGED]
    assert found.figures[left_out.NOT_JUDGED] == {STRANGE: 3}
    assert "crashes" not in found.evidence


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("key", ["k", "another"])
def test_beside_ops_that_it_knows_others_are_named_and_change_no_verdict(name: str, key: str) -> None:
    script = Script(nodes=1)
    for f, value, result in KNOWN[name]:
        script.call(0, f, value, result, key="k")
    before = judge_one(name, script)
    assert left_out.NOT_JUDGED not in before.figures
    for number in range(3):
        script.call(0, STRANGE, number, key=key)
    found = judge_one(name, script)
    assert [reason for reason in found.inconclusive if reason.code == Code.NOT_JUDGED] == []
    assert (found.valid == "false", found.anomalies) == (before.valid == "false", before.anomalies)
    assert found.figures[left_out.NOT_JUDGED] == {STRANGE: 3}
    assert found.valid == "false" or found.sentence.endswith(SAID)


def test_each_of_several_checkers_judges_its_own_ops_of_one_history() -> None:
    script = Script()
    for f, value, result in (("add", 1, 1), ("read", None, [1]), ("create", 2, 2), ("read-it", None, 2)):
        script.call(0, f, value, result)
    sets, names = engine.judge(script.table(), [CheckerSpec("set"), CheckerSpec("declare", {"read": "read-it"})])
    assert [(each.valid, each.inconclusive) for each in (sets, names)] == [("true", ())] * 2
    assert sets.sentence.endswith(" 1 op of the function 'create' and 1 of 'read-it' are not judged by this checker.")
    assert names.sentence.endswith(" 1 op of the function 'add' and 1 of 'read' are not judged by this checker.")


def test_a_violation_keeps_its_sentence() -> None:
    script = Script()
    script.call(0, "add", 1)
    script.call(0, "read", result=[])
    script.call(0, STRANGE)
    found = judge_one("set", script)
    assert found.valid == "false"
    assert "not judged" not in found.sentence
    assert found.figures[left_out.NOT_JUDGED] == {STRANGE: 1}


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"a": 1}, "1 op of the function 'a' is not judged by this checker."),
        ({"a": 1, "b": 2}, "2 ops of the function 'b' and 1 of 'a' are not judged by this checker."),
        ({"a": 1, "b": 2, "c": 3}, "3 ops of the function 'c', 2 of 'b' and 1 of 'a' are not judged by this checker."),
        (
            {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5},
            "5 ops of the function 'e', 4 of 'd', 3 of 'c' and 3 of 2 other functions are not judged by this checker.",
        ),
        ({"x" * 100: 2}, f"2 ops of the function '{'x' * 40}...' are not judged by this checker."),
    ],
)
def test_words(others: dict[str, int], said: str) -> None:
    assert left_out.words(others) == said


class NamesThem:
    """A checker of one's own with an attribute of that name, which is none of this."""

    name, partition = "names-them", "run"
    functions = ("read",)

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        return Verdict(checker=self.name, valid="true", algorithm="none", sentence="Good.")

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        [verdict] = verdicts
        return verdict


class Fails(NamesThem):
    """One whose method fails."""

    def functions(self, options: Mapping[str, Any]) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise KeyError("read")


def test_a_checker_of_ones_own_that_breaks_over_its_functions_hides_nothing() -> None:
    script = Script()
    script.call(0, "write", 1, key="k")
    script.call(0, "read", None, 2, key="k")
    specs = [CheckerSpec(f"{__name__}:NamesThem"), CheckerSpec(f"{__name__}:Fails")]
    named, fails, found = engine.judge_each(
        script.table(), [*specs, CheckerSpec("linearizable", {"model": "register"})]
    )
    assert (named.valid, named.sentence, named.inconclusive) == ("true", "Good.", ())
    assert fails.valid == "unknown"
    assert "KeyError" in fails.sentence
    assert found.valid == "false"


def test_a_violation_that_is_known_early_has_the_figures_of_its_checker_alone() -> None:
    script = Script()
    script.call(0, "increment", 1, 7, key="k")
    script.call(0, "frob", 1, key="k")
    recorded = engine.Recorded(script.table(), None)
    early, last = recorded.answers(CheckerSpec("counter"))
    assert (early.valid, last.valid) == ("false", "false")
    assert last.figures[left_out.NOT_JUDGED] == {"frob": 1}
    assert {*early.figures} == {*CounterChecker().check(script.table(), {}).figures}
