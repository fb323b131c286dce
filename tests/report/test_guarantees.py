"""The page says which guarantees broke, which held, and what nobody looked at; and nothing that no verdict tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from splitbrain.checkers.verdict import Verdict
from splitbrain.results.report import write_report
from splitbrain.results.report.guarantees import Guarantees, guarantees_of
from tests.report.sample import State, sample_run


def verdict(checker: str, valid: bool | str, **more: Any) -> dict[str, Any]:
    return {"checker": checker, "valid": valid, **more}


def test_a_checker_of_several_models_names_the_weakest_that_broke_and_the_strongest_that_survives() -> None:
    models = {"violated": ["read-committed", "serializable"], "surviving": ["read-uncommitted"]}
    for part in ("evidence", "figures"):
        found = guarantees_of([verdict("isolation", False, anomalies=["G1a"], **{part: {"models": models}})])
        assert found.broken == ["read-committed (and with it serializable)"]
        assert found.surviving == ["read-uncommitted"]
        assert found.unknown == ""


def test_a_known_checker_that_names_models_itself_leaves_nothing_unknown() -> None:
    found = guarantees_of([verdict("linearizable", False, figures={"models": {"violated": ["sequential"]}})])
    assert (found.broken, found.unknown) == (["sequential"], "")


def test_of_a_checker_of_one_model_weaker_ones_are_said_to_be_unchecked() -> None:
    found = guarantees_of([verdict("linearizable", False), verdict("stats", True), verdict("crashes", True)])
    assert found == Guarantees(
        ["linearizability"], [], "", "models weaker than linearizability, such as sequential consistency", ["crashes"]
    )


def test_models_that_could_not_be_decided_are_named_with_the_reason() -> None:
    models = {"violated": ["linearizability"], "surviving": [], "undecided": ["SC", "CM"], "why_undecided": "too many"}
    found = guarantees_of([verdict("linearizable", False, evidence={"models": models})])
    assert (found.broken, found.undecided, found.unknown) == (["linearizability"], "SC, CM (too many)", "")


def test_other_checkers_are_named_with_what_they_found_and_undecided_ones_neither_broke_nor_held() -> None:
    found = guarantees_of(
        [verdict("quorum-progress", False, anomalies=["Q2", "Q10"]), verdict("set", "unknown"), verdict("mine", False)]
    )
    assert found.broken == ["quorum-progress (Q2 no progress on the wrong side, Q10 superseded leaders)", "mine"]
    assert (found.surviving, found.unknown, found.held) == ([], "", [])


@pytest.mark.parametrize(
    "models", [None, [], {"violated": "all"}, {"violated": {}}, {"surviving": 3}, {"undecided": "x"}]
)
def test_models_in_another_shape_are_not_guessed_at(models: Any) -> None:
    found = guarantees_of([verdict("linearizable", False, evidence={"models": models})])
    assert found.broken == ["linearizability"]
    assert (found.surviving, found.undecided) == ([], "")


@pytest.mark.slow
@pytest.mark.parametrize(("state", "told"), [("violation", True), ("pass", False), ("harness error", False)])
def test_the_banner_tells_them_where_something_broke(tmp_path: Path, state: State, told: bool) -> None:
    page = write_report(sample_run(tmp_path, state).path).read_text()
    banner = page[page.index("<header") : page.index("</header>")]
    broken = "<b>Broken:</b> linearizability of the set. <b>Not checked:</b> models weaker than linearizability of"
    assert (broken in banner) == told
    assert ("<b>Held:</b> quorum-progress." in banner) == told


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("models", "words"),
    [
        ({"violated": ["linearizability"], "surviving": ["causal memory (CM)"]}, "survives:</b> causal memory (CM)."),
        ({"violated": ["causal consistency (CC)", "linearizability"]}, "causal consistency (CC) (and with it linear"),
        ({"undecided": ["sequential consistency"], "why_undecided": "<why>"}, "consistency (&lt;why&gt;)."),
    ],
)
def test_the_banner_says_what_is_left_of_a_run_that_is_not_linearizable(
    tmp_path: Path, models: dict[str, Any], words: str
) -> None:
    run = sample_run(tmp_path, "violation")
    verdict = Verdict(checker="linearizable", valid="false", sentence="Not so.", evidence={"models": models})
    run.write_verdicts([verdict], "violation")
    page = write_report(run.path).read_text()
    assert words in page[page.index("<header") : page.index("</header>")]
