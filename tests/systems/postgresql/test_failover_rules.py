"""When a node of PostgreSQL promotes itself, and whom it follows."""

from __future__ import annotations

from splitbrain.harness.systems.postgresql.node import Follow, Promote, State, decide

PRIMARY = State(standby=False, timeline=1, position=100, streaming=False)
NEWER = State(standby=False, timeline=2, position=90, streaming=False)
STREAMING = State(standby=True, timeline=1, position=100, streaming=True)
ALONE = State(standby=True, timeline=1, position=100, streaming=False)
BEHIND = State(standby=True, timeline=1, position=99, streaming=False)


def as_n2(own: State, n1: State | None, n3: State | None, silent_s: float = 5.0) -> Promote | Follow | None:
    """What n2 of three does, which follows n1, with a failover timeout of 2 s."""
    return decide("n2", own, {"n1": n1, "n3": n3}, "n1", silent_s, 2.0)


class TestAStandby:
    def test_that_is_connected_stays_one(self) -> None:
        assert as_n2(STREAMING, PRIMARY, STREAMING) is None
        assert as_n2(STREAMING, None, STREAMING) is None

    def test_promotes_itself_once_it_heard_nothing_for_the_timeout(self) -> None:
        assert as_n2(ALONE, None, BEHIND, 1.9) is None
        assert as_n2(ALONE, None, BEHIND, 2.0) == Promote()

    def test_leaves_it_to_one_that_has_more_of_the_log_or_a_later_name(self) -> None:
        assert as_n2(BEHIND, None, ALONE) is None
        assert as_n2(ALONE, None, ALONE) is None

    def test_leaves_the_primary_alone_that_another_one_still_hears(self) -> None:
        assert as_n2(ALONE, None, State(standby=True, timeline=1, position=50, streaming=True)) is None

    def test_of_three_needs_one_other_and_of_two_nobody(self) -> None:
        assert as_n2(ALONE, None, None) is None
        assert decide("n2", ALONE, {"n1": None}, "n1", 5.0, 2.0) == Promote()

    def test_does_not_promote_itself_while_it_sees_its_primary(self) -> None:
        assert as_n2(ALONE, PRIMARY, BEHIND) is None

    def test_copies_its_primary_again_if_nothing_comes_of_it_for_long(self) -> None:
        assert as_n2(ALONE, PRIMARY, BEHIND, 8.1) == Follow("n1")

    def test_follows_another_primary_if_its_own_is_gone_or_of_an_earlier_timeline(self) -> None:
        assert as_n2(ALONE, None, NEWER, 0.0) == Follow("n3")
        assert as_n2(STREAMING, PRIMARY, NEWER, 0.0) == Follow("n3")

    def test_stays_with_its_own_of_two_primaries_of_one_timeline(self) -> None:
        assert as_n2(STREAMING, PRIMARY, PRIMARY, 0.0) is None


class TestAPrimary:
    def test_stays_one_whatever_it_hears_of_standbys(self) -> None:
        assert as_n2(PRIMARY, None, None) is None
        assert as_n2(PRIMARY, STREAMING, ALONE) is None

    def test_gives_way_to_one_of_a_later_timeline_and_never_to_an_earlier_one(self) -> None:
        assert as_n2(PRIMARY, None, NEWER) == Follow("n3")
        assert as_n2(NEWER, PRIMARY, None) is None

    def test_of_two_with_the_same_timeline_the_one_with_the_later_name_stays(self) -> None:
        assert as_n2(NEWER, None, NEWER) == Follow("n3")
        assert as_n2(NEWER, NEWER, None) is None
