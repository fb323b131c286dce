"""Which waits are over by a mark: that of the right node, and no earlier than its n-th time since the wait began."""

from __future__ import annotations

import pytest

from splitbrain.harness.contract.faultkinds import INJECTED_KINDS, supported
from splitbrain.harness.contract.moments import Moment, Moments, Passed
from splitbrain.harness.systems.etcd import Etcd
from splitbrain.harness.systems.metadata import Metadata
from tests.harness.worlds import MemoryBackend, MemoryDeployment


def test_each_node_counts_for_itself() -> None:
    moments, wanted = Moments(), Moment(mark="vote", occurrence=2)
    wait = moments.wait([wanted])
    assert moments.passed("n1", "vote") == {}
    assert moments.passed("n2", "vote") == {}
    assert moments.passed("n2", "other") == {}
    assert moments.passed("n2", "vote") == {wait: Passed(wanted, "n2")}
    assert moments.passed("n1", "vote") == {}, "the wait is over"


def test_a_moment_of_a_node_is_not_that_of_another() -> None:
    moments, wanted = Moments(), Moment(mark="vote", node="n3")
    wait = moments.wait([wanted])
    assert moments.passed("n1", "vote") == {}
    assert moments.passed("n3", "vote") == {wait: Passed(wanted, "n3")}


def test_marks_are_counted_from_the_begin_of_the_wait() -> None:
    moments, wanted = Moments(), Moment(mark="vote", occurrence=2)
    early = moments.wait([wanted])
    moments.passed("n1", "vote")
    late = moments.wait([wanted])
    assert list(moments.passed("n1", "vote")) == [early]
    assert list(moments.passed("n1", "vote")) == [late]


def test_the_first_of_several_moments_ends_a_wait_and_what_was_given_up_never_comes() -> None:
    moments = Moments()
    one, other = Moment(mark="vote", occurrence=9), Moment(mark="snapshot")
    wait, given_up = moments.wait([one, other]), moments.wait([other])
    moments.give_up(given_up)
    moments.give_up(given_up)
    assert moments.passed("n1", "snapshot") == {wait: Passed(other, "n1")}


@pytest.mark.parametrize(("system", "works"), [(Metadata(), True), (Etcd(), False)])
def test_moments_need_a_system_that_reports_its_marks(system: Metadata | Etcd, works: bool) -> None:
    assert "moment" in INJECTED_KINDS
    found = supported(MemoryBackend(MemoryDeployment()), system)["moment"]
    assert found.works is works
    if not works:
        assert found.how == "nodes of system 'etcd' do not report which coverage marks they pass."
