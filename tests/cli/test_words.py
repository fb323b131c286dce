"""How a run's clocks are put in words."""

from __future__ import annotations

from splitbrain.checkers.verdict import Verdict
from splitbrain.harness.campaigns.words import inexact_clocks, sentences
from splitbrain.results.notes import Clocks
from splitbrain.results.reasons import Code, Reason


def test_only_hosts_whose_clocks_are_not_known_to_a_millisecond_are_named() -> None:
    line = inexact_clocks(Clocks(errors_s={"n1": 0.0, "n2": 0.0023, "n3": 0.001, "n4": 0.5}))
    assert line is not None
    assert line.startswith("clocks  n2 ±2.3 ms, n4 ±500.0 ms:")


def test_nothing_is_said_of_clocks_that_are_known() -> None:
    assert inexact_clocks(Clocks(errors_s={"n1": 0.001})) is None
    assert inexact_clocks(Clocks()) is None


def test_a_violation_comes_first_and_a_broken_checker_stands_for_what_was_not_proven() -> None:
    lost = Verdict(checker="set", valid="false", sentence="n2 lost 7.")
    unproven = Verdict(
        checker="coverage", valid="unknown", inconclusive=(Reason(Code.NOT_JUDGED, "nothing was judged."),)
    )
    said = sentences([unproven, lost], "checker 'mine' broke")
    assert said == ["n2 lost 7.", "Harness error: checker 'mine' broke"]
    assert sentences([lost]) == ["n2 lost 7."]
    assert [each.partition(":")[0] for each in sentences([unproven, lost])] == ["n2 lost 7.", "Inconclusive"]


def test_the_first_sentence_is_of_the_checker_that_found_the_leading_signature() -> None:
    other = Verdict(checker="linearizable", valid="false", sentence="Not linearizable.")
    leads = Verdict(checker="my checker", valid="false", sentence="A read had no majority.")
    signatures = ("my_checker/read-without-majority/leader/none", "linearizable/nonlinearizable/read/none")
    assert sentences([other, leads], None, signatures) == ["A read had no majority.", "Not linearizable."]
    assert sentences([other, leads], "n1 died", signatures)[0] == "A read had no majority."
    assert sentences([other, leads]) == ["Not linearizable.", "A read had no majority."]
