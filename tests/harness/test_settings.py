"""Numbers that nodes are started with: what a test may choose, and what is refused."""

from __future__ import annotations

import pytest

from splitbrain.harness.contract.settings import Setting, chosen
from splitbrain.results.errors import UnknownNameError, UsageError

SETTINGS = {
    "interval": Setting(line="entries between two snapshots", default=64),
    "lag": Setting(line="entries that a follower may lack", default=8, least=0),
}


def test_nothing_chosen_leaves_everything_to_the_nodes() -> None:
    assert chosen("", SETTINGS, "shop") == {}
    assert chosen(" ", {}, "shop") == {}


def test_several_are_separated_by_commas() -> None:
    assert chosen("lag=0, interval = 16", SETTINGS, "shop") == {"lag": 0, "interval": 16}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("interval=0", "give interval a whole number of 1 to 1000000000, such as interval=64"),
        ("interval=1000000001", "give interval a whole number of 1 to 1000000000"),
        ("interval=-1", "give interval a whole number of 1 to"),
        ("interval=1.5", "give interval a whole number"),
        ("interval=", "give interval a whole number"),
        ("interval", "give interval a whole number"),
        ("interval=1,interval=2", "interval is set twice"),
        ("interval=1,,lag=1", "empty name"),
    ],
)
def test_what_a_setting_cannot_be_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        chosen(text, SETTINGS, "shop")


def test_a_setting_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UnknownNameError, match=r"intervall.*of system 'shop'.*interval"):
        chosen("intervall=3", SETTINGS, "shop")
    with pytest.raises(UnknownNameError, match="interval"):
        chosen("interval=3", {}, "shop")


WORDS = {"strategy": Setting(line="what to do", default=0, least=0, most=1, words=("ignore", "heal"), drawn=(0, 1))}


def test_a_setting_with_names_is_chosen_by_name_and_by_nothing_else() -> None:
    assert chosen("strategy=heal", WORDS, "shop") == {"strategy": 1}
    assert WORDS["strategy"].text(1) == "heal"
    assert SETTINGS["lag"].text(3) == "3"
    for text in ("strategy=1", "strategy=heall", "strategy="):
        with pytest.raises(UsageError, match="strategy is one of ignore, heal"):
            chosen(text, WORDS, "shop")
