"""A run that ends with a quiet phase: from when on members must have met, and what is not asked of anybody in it."""

from __future__ import annotations

import pytest

from tests.checkers.quorum.story import FIVE, Story, rules

BOUND_S = 2.0


def ended(odd: tuple[int, str], quiet_s: float | None, end_s: float) -> Story:
    """Recovered at 5 s, load until 6 s, whose last op is answered at 7.4 s; n3 has applied another index or state."""
    story = Story()
    story.note(4.0, "phase", {"phase": "heal"})
    story.note(5.0, "recovered", {"seconds": 1.0})
    story.ask("12345", 0.0, 6.0)
    story.ask("1", 6.4, 6.5, takes_s=1.0)
    if quiet_s is not None:
        story.note(quiet_s, "phase", {"phase": "quiet"})
    for node in FIVE:
        applied, state = odd if node == "n3" else (9, "a")
        story.tell(7.5, node, applied_index=applied, commit_index=applied, state_hash=state, voters=list(FIVE))
    story.note(end_s, "converged", {"seconds": None})
    return story


@pytest.mark.parametrize(
    ("quiet_s", "end_s", "broken"),
    [
        (None, 9.3, ()),  # without the phase the bound counts from when the last op was over
        (None, 9.5, ("Q7",)),
        (7.5, 8.5, ()),
        (7.5, 9.5, ("Q7",)),
    ],
)
def test_the_bound_counts_from_the_beginning_of_the_quiet_phase(
    quiet_s: float | None, end_s: float, broken: tuple[str, ...]
) -> None:
    assert rules(ended((8, "a"), quiet_s, end_s).judged(convergence_bound_s=BOUND_S)) == broken


def test_states_that_differ_at_one_index_need_no_waiting_for() -> None:
    verdict = ended((9, "b"), 7.5, 7.8).judged(convergence_bound_s=BOUND_S)
    assert rules(verdict) == ("Q6", "Q7")
    told = [finding["sentence"] for finding in verdict.evidence["findings"]]
    assert any(
        "The members of group 'g' hold different states at applied index 9: n1 a, n2 a, n3 b" in one for one in told
    )


def test_nobody_is_missed_who_is_asked_nothing_in_the_quiet_phase() -> None:
    quiet = ended((9, "a"), 7.5, 12.0).judged(recovery_bound_s=3.5)
    assert (quiet.figures["rules"]["Q3"], quiet.inconclusive) == ("not judged", ())
    assert quiet.figures["windows"][-1]["end_s"] == 7.5
    assert ended((9, "a"), None, 12.0).judged(recovery_bound_s=3.5).figures["rules"]["Q3"] == "too few ops"


def test_time_in_which_the_controller_stood_still_is_not_time_to_meet_in() -> None:
    story = ended((8, "a"), 7.5, 9.9)
    story.note(9.4, "stall", {"gap_ms": 500})
    verdict = story.judged(convergence_bound_s=BOUND_S)
    assert (rules(verdict), verdict.figures["rules"]["Q7"]) == ((), "not judged")
    longer = ended((8, "a"), 7.5, 10.1)
    longer.note(9.4, "stall", {"gap_ms": 500})
    assert rules(longer.judged(convergence_bound_s=BOUND_S)) == ("Q7",)
