"""For how long members of a core had been without each other, and that Q3 waits for that where it is told to."""

from __future__ import annotations

from splitbrain.checkers.quorum.outages import outages
from splitbrain.checkers.quorum.windows import windows
from splitbrain.results.faults import run_events
from tests.checkers.quorum.story import FIVE, Story, between, rules


def cut_for(seconds: float) -> Story:
    """n1 and n2 are cut off for so long from 5 s on, and silent for 10 s after the heal; then the run ends."""
    story = Story()
    story.ask("12345", 0.0, 5.0)
    story.fault(5.0, 5.2, cut=between("12", "345"))
    story.ask("345", 6.0, 5.0 + seconds)
    story.fault(5.0 + seconds, 5.2 + seconds, action="stop")
    story.ask("345", 6.0 + seconds, 15.0 + seconds)
    story.ask("12", 6.0 + seconds, 15.0 + seconds, "info", takes_s=0.05)
    return story


def found(story: Story) -> list[float]:
    events = run_events(story.history())
    return [round(each / 1e9, 3) for each in outages(windows(events, story.telemetry(), FIVE))]


def test_an_outage_lasts_from_the_last_window_in_which_nodes_were_linked() -> None:
    assert found(cut_for(20.0)) == [0.0, 0.2, 20.2]


def test_an_outage_goes_on_over_windows_and_counts_for_the_pair_that_was_longest_without_each_other() -> None:
    story = Story()
    story.fault(5.0, 5.2, cut=between("12", "345"))
    story.fault(9.0, 9.2, cut=between("1", "345"))
    story.fault(12.0, 12.2, fault="kill", cut=between("1", "345"), down="5")
    story.fault(15.0, 15.2, action="stop")
    story.ask("1", 20.0, 21.0)
    # n2 is back at 9.2 s, n1 and n5 at 15.2 s; the core of 12.2 s is n2 n3 n4, which had been linked.
    assert found(story) == [0.0, 0.2, 4.2, 0.2, 10.2]


def test_a_node_that_was_down_was_without_the_others() -> None:
    story = Story()
    story.fault(5.0, 5.2, fault="kill", down="1")
    story.fault(9.0, 9.2, fault="kill", action="stop")
    story.ask("1", 10.0, 11.0)
    assert found(story) == [0.0, 0.2, 4.2]


def test_q3_waits_for_as_long_as_nodes_were_cut_off_where_it_is_told_to() -> None:
    assert rules(cut_for(20.0).judged()) == ("Q3",)
    assert rules(cut_for(20.0).judged(recovery_per_outage=1.0)) == ()
    assert rules(cut_for(20.0).judged(recovery_per_outage=0.25)) == ("Q3",)
    assert rules(cut_for(20.0).judged(recovery_per_outage=1.0, outage_limit_s=4.0)) == ("Q3",)
    assert rules(cut_for(3.0).judged(recovery_per_outage=1.0)) == ("Q3",)


def test_members_that_were_without_each_other_have_as_long_to_meet_where_connections_outlive_a_cut() -> None:
    story = Story()
    story.ask("12345", 0.0, 5.0)
    story.fault(5.0, 5.2, cut=between("12", "345"))
    story.note(25.0, "phase", {"phase": "heal"})
    story.note(25.2, "healed", {})
    story.note(26.0, "phase", {"phase": "quiet"})
    for node in FIVE:
        applied = 8 if node == "n1" else 9
        story.tell(26.5, node, applied_index=applied, commit_index=applied, voters=list(FIVE))
    story.note(30.0, "converged", {"seconds": None})
    assert "Q7" in rules(story.judged(convergence_bound_s=2.0))
    assert "Q7" not in rules(story.judged(convergence_bound_s=2.0, recovery_per_outage=1.0))
