"""What the checker `quorum-progress` left in the verdict: windows, recovery times, availability, rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from splitbrain.results.report.lanes import Stretch

CHECKER: Final = "quorum-progress"


class Asked(msgspec.Struct, frozen=True):
    """Ops that one node received in one window, and their results; older verdicts have only `ops` and `answered`.

    Attributes:
        refused: failed, without an answer of the state.
        unknown: their outcome is unknown.
        first_answer_s: seconds from the beginning of the window to the first answer, None if there was none.
    """

    ops: int = 0
    answered: int = 0
    refused: int = 0
    unknown: int = 0
    first_answer_s: float | None = None


class QuorumWindow(msgspec.Struct, frozen=True):
    """A stretch without changes. A node outside `possibly_served` must give no quorum answer in it.

    Attributes:
        start_s, end_s: seconds since the test began.
        cut, uncertain_links: directed links that pass never, or not always.
        down, uncertain: nodes that were stopped or paused, or may have been.
        configurations: all voter sets that any node held.
        number: its number in the run; its place in the list in older verdicts, which leave none out.
        Q1, Q2, Q3, Q8: the result of the rule in it, None if it is not given.
    """

    start_s: float
    end_s: float
    possibly_served: list[str]
    possibly_capable: list[str] = []
    cores: list[list[str]] = []
    nodes: dict[str, Asked] = {}
    cut: list[list[str]] = []
    uncertain_links: list[list[str]] = []
    down: list[str] = []
    uncertain: list[str] = []
    configurations: list[list[str]] = []
    number: int | None = None
    Q1: str | None = None
    Q2: str | None = None
    Q3: str | None = None
    Q8: str | None = None

    @property
    def rules(self) -> dict[str, str]:
        """The rules that have a result, with it."""
        results = {"Q1": self.Q1, "Q2": self.Q2, "Q3": self.Q3, "Q8": self.Q8}
        return {rule: how for rule, how in results.items() if how is not None}


class Recovery(msgspec.Struct, frozen=True):
    """Seconds from a fault, or a heal, to each node's first quorum answer; None for a node that gave none."""

    fault: str
    action: str
    target: str
    time_s: float
    op: int
    nodes: dict[str, float | None]


class Shares(msgspec.Struct, frozen=True):
    """Shares of seconds and of ops that were answered, None without ops.

    Of the cluster, `silent` lists stretches without an answer; versions that counted other seconds had no such list.
    """

    time: float | None = None
    ops: float | None = None
    silent: list[list[int]] | None = None


class Availability(msgspec.Struct, frozen=True):
    """Shares of the cluster and of each node."""

    cluster: Shares = Shares()
    nodes: dict[str, Shares] = {}


class Figures(msgspec.Struct, frozen=True):
    """The figures of the verdict, as `splitbrain.checkers.quorum.checker` writes them."""

    rules: dict[str, str] = {}
    windows: list[QuorumWindow] = []
    recovery: list[Recovery] = []
    availability: Availability = Availability()
    bounds: dict[str, float] = {}
    left_out: dict[str, int] = {}


class Quorum(msgspec.Struct, frozen=True):
    """What is known of quorum progress.

    Attributes:
        figures: None where the checker did not judge the run, or wrote them in a shape that this page cannot read.
        why_not: why there are none, in words.
    """

    figures: Figures | None
    why_not: str | None = None


def quorum_of(verdicts: Sequence[Mapping[str, Any]]) -> Quorum:
    """The figures among a run's verdicts."""
    verdict = next((verdict for verdict in verdicts if verdict.get("checker") == CHECKER), None)
    if verdict is None:
        return Quorum(None, f"{CHECKER} did not judge this run: its rules, recovery and availability are not known.")
    try:
        found = msgspec.convert(verdict.get("figures"), Figures)
    except msgspec.ValidationError as problem:
        return Quorum(None, f"The figures of {CHECKER} cannot be read: {problem}")
    if found.availability.cluster.silent is None:  # of a version that counted other seconds: `analyze` judges it again
        found = msgspec.structs.replace(found, availability=Availability())
    return Quorum(found)


def unserved(figures: Figures, nodes: Sequence[str]) -> list[Stretch]:
    """When each node could reach no node that could have a quorum; adjoining windows are one stretch."""
    found: list[Stretch] = []
    for node in nodes:
        for window in figures.windows:
            if node in window.possibly_served or node not in window.nodes:
                continue  # served, or no node of the test
            what = "unserved" if window.possibly_capable else "halted"
            last = found[-1] if found and found[-1].node == node else None
            if last is not None and last.end_s == window.start_s and last.what == what:
                found[-1] = last._replace(end_s=window.end_s)
            else:
                found.append(Stretch(node, window.start_s, window.end_s, what))
    return found
