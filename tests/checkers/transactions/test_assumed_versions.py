"""Orders of versions that the user vouches for: what gives them is cited, is verified, and is no longer than needed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from splitbrain.checkers.transactions.verify import problems_of
from tests.checkers.transactions.test_isolation_checkers import history, judge

SESSION = """
0 invoke [[:w :x 1]]
0 ok     [[:w :x 1]]
0 invoke [[:w :x 2]]
0 ok     [[:w :x 2]]
0 invoke [[:r :x nil]]
0 ok     [[:r :x 1]]
"""
"""A session goes back from what it wrote last to what it wrote first."""

LATER = """
0 invoke [[:w :x 1]]
0 ok     [[:w :x 1]]
1 invoke [[:w :x 2] [:w :y 1]]
2 invoke [[:r :y nil] [:r :x nil]]
1 ok     [[:w :x 2] [:w :y 1]]
2 ok     [[:r :y 1] [:r :x 1]]
"""
"""By real time 2 replaced 1; the last transaction read y of the second, and x of the first."""

OWN = """
0 invoke [[:w :x 1]]
1 invoke [[:r :x nil] [:w :x 2]]
0 ok     [[:w :x 1]]
1 ok     [[:r :x 1] [:w :x 2]]
2 invoke [[:r :x nil]]
2 ok     [[:r :x 2]]
2 invoke [[:r :x nil]]
2 ok     [[:r :x 1]]
"""
"""A session goes back from what a transaction wrote to what that had read."""

LONG = "\n".join(
    f"0 {kind} [[:{f} :x {value if kind == 'ok' or f == 'w' else 'nil'}]]"
    for f, value in [*(("w", each) for each in range(1, 8)), ("r", 6), ("r", 7), ("r", 1)]
    for kind in ("invoke", "ok")
)
"""A session that goes back from 7 to 6, and later from 7 to 1: the cycle of two versions is the shortest."""

CASES: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "a session": (SESSION, "read-committed", {"sequential_keys": True}, "cyclic-versions"),
    "a long session": (LONG, "read-committed", {"sequential_keys": True}, "cyclic-versions"),
    "real time": (LATER, "serializable", {"linearizable_keys": True}, "G-single-item"),
    "what follows reads": (
        OWN,
        "read-committed",
        {"wfr_keys": True, "sequential_keys": True},
        "cyclic-versions",
    ),
}

OTHERS = {
    "sequential-keys": ("wfr-keys",),  # in these histories real time orders a session, too
    "linearizable-keys": ("sequential-keys", "wfr-keys"),
    "wfr-keys": ("sequential-keys", "linearizable-keys"),
}
"""Rules by which what another rule gives does not follow."""


def shown(name: str) -> tuple[Any, dict[str, Any]]:
    """The history of a case, and its witness."""
    text, model, options, anomaly = CASES[name]
    found = judge(text, "rw-register", consistency_models=[model], **options)
    assert "unverified" not in found.evidence
    return history(text), found.evidence["anomalies"][anomaly][0]


def changed(witness: Any) -> Iterator[Any]:
    """The witness with another rule, or with what the rule follows from changed."""
    for place in range(len(witness.get("rules", ()))):
        for rule in OTHERS[witness["rules"][place]]:
            yield {**copy.deepcopy(witness), "rules": [*witness["rules"][:place], rule, *witness["rules"][place + 1 :]]}
        swapped = copy.deepcopy(witness)
        mops = swapped["mops"]
        mops[2 * place], mops[2 * place + 1] = mops[2 * place + 1], mops[2 * place]
        yield swapped
    for place, step in enumerate(witness.get("steps", ())):
        if "given" not in step:
            continue
        swapped = copy.deepcopy(witness)
        swapped["steps"][place]["given"] = step["given"][::-1]
        yield swapped
        for rule in OTHERS[step["rule"]]:
            other = copy.deepcopy(witness)
            other["steps"][place]["rule"] = rule
            yield other


@pytest.mark.parametrize("name", CASES)
def test_what_an_assumption_gives_is_cited_and_verified(name: str) -> None:
    table, witness = shown(name)
    assert problems_of(witness, table) == []
    others = list(changed(witness))
    assert others
    for other in others:
        assert problems_of(other, table), other


def test_cyclic_versions_are_a_shortest_cycle() -> None:
    _, witness = shown("a long session")
    assert len(witness["values"]) == 2
    assert len(witness["transactions"]) <= 4
    assert "sequential-keys" in witness["sentence"]
