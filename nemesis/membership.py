"""The kind of fault of members that leave and join: what may be asked for, and the ways that are drawn from.

What is done is in `splitbrain.nemesis.members`.
"""

from __future__ import annotations

from typing import Final

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.nemesis.checks import check_enough
from splitbrain.nemesis.kinds import Asked, Injection, Kind, Ways
from splitbrain.nemesis.members import (
    LEAVES_S,
    NODES_MIN,
    RASH_NODES_MIN,
    SPECS,
    MembershipChanges,
    MembershipRequest,
)
from splitbrain.results.errors import UsageError

__all__ = ["KIND", "LEAVES_S", "MembershipChanges", "MembershipRequest"]

REPLACE_NODES_MIN: Final = 4
"""With fewer nodes one would be left while two are out."""


def _check(given: Asked[MembershipRequest]) -> None:
    wanted = given.request
    needed = RASH_NODES_MIN if wanted.rash else REPLACE_NODES_MIN if wanted.replace else NODES_MIN
    check_enough(given.nodes, needed, "a change of members")
    if wanted.rash + wanted.replace + wanted.learner > 1:
        raise UsageError(f"{given.f}: give one of rash, replace and learner.")
    if wanted.spec == "primaries" and not wanted.rash:
        raise UsageError("all that lead leave only rashly: give rash as well, or another spec.")


def _needs(wanted: MembershipRequest) -> tuple[FaultKind, ...]:
    return ("membership", "kill", "learners") if wanted.learner else ("membership", "kill")


def _leaves(*specs: str) -> tuple[Injection, ...]:
    return tuple(Injection({"spec": spec}, nodes=NODES_MIN, needs=("membership", "kill")) for spec in specs)


def _replaces(*specs: str) -> tuple[Injection, ...]:
    return tuple(
        Injection({"replace": True, "spec": spec}, nodes=REPLACE_NODES_MIN, needs=("membership", "kill"))
        for spec in specs
    )


def _learns(*specs: str) -> tuple[Injection, ...]:
    return tuple(
        Injection({"learner": True, "spec": spec}, nodes=NODES_MIN, needs=("membership", "kill", "learners"))
        for spec in specs
    )


def _rash(spec: str) -> tuple[Injection, ...]:
    request = {"rash": True, "spec": spec}
    return (Injection(request, nodes=RASH_NODES_MIN, needs=("membership", "kill")),)


KIND: Final = Kind(
    request=MembershipRequest,
    nemesis=MembershipChanges,
    start_f="leave",
    stop_f="join",
    example='{"spec": "leader"}',
    needs=_needs,
    marks=(
        "members removed rashly",
        "member did not come back",
        "member removed",
        "leader removed",
        "member added",
        "member replaced",
        "member joined as learner",
        "learner promoted",
        "membership change refused",
    ),
    healed=80,
    check=_check,
    specs=SPECS,
    takes_s=LEAVES_S,
    ways={
        "membership": Ways(
            (_leaves("leader"), _leaves("one", "follower"), (*_replaces("one"), *_learns("one"))),
            "removes a member, wipes its data, and lets it join again: in turn the leader, any, and as a learner or "
            "while another one leaves",
        ),
        "membership-leave": Ways(
            (_leaves("leader"), _leaves("one", "follower")),
            "removes a member, wipes its data, and lets it join again: in turn the leader, and any",
        ),
        "membership-replace": Ways(
            (_replaces("one", "leader"),), "removes a member, and lets it join again while another one is removed"
        ),
        "membership-learner": Ways(
            (_learns("one", "leader", "follower"),),
            "removes a member, lets it join again as a learner, and promotes that later",
        ),
        "membership-rash": Ways(
            (_rash("primaries"), _rash("one")),
            "asks who says to lead, one of them or all, to remove two members at once, and lets them join again",
        ),
    },
)
