"""Histories whose place among the consistency models is known from the literature.

Figures: Bouajjani, Enea, Guerraoui and Hamza, "On verifying causal consistency" (POPL 2017), which shows with five
histories that CM, CCv, CC and sequential consistency differ. Litmus tests by the names of Alglave, Maranget and
Tautschnig, "Herding cats" (TOPLAS 2014); what is asked there of hardware is asked here of the models.
"""

from __future__ import annotations

import pytest

from splitbrain.checkers.weaker.models import sentence
from tests.checkers.weaker.definitions import calls_of, is_sequential
from tests.checkers.weaker.support import NAMES, decided, history

ALL = {"SC", "CM", "CCv", "CC"}
CAUSAL = {"CM", "CCv", "CC"}

KNOWN: list[tuple[str, list[str], set[str]]] = [
    ("CM, not CCv", ["x=1 x:2", "x=2 x:1"], {"CM", "CC"}),
    ("CCv, not CM", ["z=1 x=1 y=1", "x=2 z: y:1 x:2"], {"CCv", "CC"}),
    ("CC, neither CM nor CCv", ["x=1", "x=2 x:1 x:2"], {"CC"}),
    ("CM and CCv, not sequential", ["x=1 y: y=1 x:1", "x=2 y: y=2 x:2"], CAUSAL),
    ("not CC", ["x=1 y=1", "y:1 x=2", "x:2 x:1"], set()),
    ("SB: store buffering", ["x=1 y:", "y=1 x:"], CAUSAL),
    ("MP: message passing", ["x=1 y=1", "y:1 x:"], set()),
    ("LB: load buffering", ["x:1 y=1", "y:1 x=1"], set()),
    ("WRC: write to read causality", ["x=1", "x:1 y=1", "y:1 x:"], set()),
    ("IRIW: independent reads of independent writes", ["x=1", "y=1", "x:1 y:", "y:1 x:"], CAUSAL),
    ("CoRR: coherence of two reads", ["x=1 x=2", "x:2 x:1"], set()),
    ("CoWR: coherence of a write and a read", ["x=1 x:2", "x=2"], ALL),
    ("two readers that disagree on two writes", ["x=1", "x=2", "x:1 x:2", "x:2 x:1"], {"CM", "CC"}),
    ("2+2W: two pairs of writes, each read by who wrote first", ["x=1 y=2 y:1", "y=1 x=2 x:1"], {"CM", "CC"}),
    ("a stale read that a session cannot notice", ["x=1 x=2", "x:1"], ALL),
    ("a value from nowhere", ["x=1", "x:2"], set()),
    ("two compare-and-sets that both succeed", ["x:1>2", "x:1>3", "x=1"], CAUSAL),
    ("a crashed write that was seen", ["x=1? ", "x:1 x:1"], ALL),
    ("a crashed write that was seen and unseen", ["x=1?", "x:1 x:"], set()),
    ("a crashed write that was never seen", ["x=1 x=3?", "x:1"], ALL),
]


@pytest.mark.parametrize(("processes", "holds"), [each[1:] for each in KNOWN], ids=[each[0] for each in KNOWN])
def test_a_known_history_fulfils_what_it_is_known_to_fulfil(processes: list[str], holds: set[str]) -> None:
    answer = decided(history(*processes))
    assert {name for name, model in NAMES.items() if answer.holds[model]} == holds
    assert is_sequential(calls_of(history(*processes))) is ("SC" in holds)


@pytest.mark.parametrize(("processes", "pattern", "words"), [
    (["x=1", "x:2"], "ThinAirRead", "nothing wrote what read -> 2 of key \"x\" (process 1, op 3) saw"),
    (["x:1 y=1", "y:1 x=1"], "CyclicCO", "would have to come, causally, each before the next"),
    (["x=1 y=1", "y:1 x:"], "WriteCOInitRead", "write 1 of key \"x\" (process 0, op 1) came causally before it"),
    (["x=1 x=2", "x:2 x:1"], "WriteCORead", "read -> 1 of key \"x\" (process 1, op 7) saw a value that had been"),
    (["x=1 x:2", "x=2 x:1"], "CyclicCF", "each of these writes would have to be replaced by the next"),
    (["z=1 x=1 y=1", "x=2 z: y:1 x:2"], "CyclicHB", "one process cannot order the writes that it knows of"),
    (["x=1 y:", "y=1 x:"], "cycle of forced orders", "in any order of all ops"),
])  # fmt: skip
def test_what_is_broken_is_named_with_the_ops_that_show_it(processes: list[str], pattern: str, words: str) -> None:
    answer = decided(history(*processes))
    assert answer.pattern == pattern
    assert answer.culprits
    assert words in sentence(answer)


def test_keys_that_are_sequential_one_by_one_need_not_be_so_together() -> None:
    apart = ["x=1 y:", "y=1 x:"]
    for key in "xy":
        lines = [" ".join(op for op in line.split() if op.startswith(key)) for line in apart]
        assert decided(history(*lines)).holds[NAMES["SC"]]
    assert not decided(history(*apart)).holds[NAMES["SC"]]
