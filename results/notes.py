"""What the harness notes of itself in a history, and the one place that decodes it.

A note is an op of the process `HARNESS`. Its function says what happened, and its value is an object of the form that
stands here. Only the harness writes notes: one of another form is damaged, wherever it is read (`note_of`), and a
stored history with such a note is refused as a whole (`splitbrain.results.soundness`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, TypeAlias, TypeVar, cast

import msgspec

from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.history import Op

CLOCKS: Final = "clocks"

PHASES: Final = ("faults", "heal", "final", "quiet")

_S_MAX: Final = 2**62 / 1e9
"""No run is 146 years long (`splitbrain.results.soundness`); what is longer overflows in nanoseconds."""

Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=_S_MAX)]
Offset: TypeAlias = Annotated[float, msgspec.Meta(ge=-_S_MAX, le=_S_MAX)]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a note. Earlier versions left out what has a default here."""


class PhaseBegan(Note, frozen=True, kw_only=True):
    """A phase of the run began: in what is stored, one of `PHASES`."""

    phase: str


class Stalled(Note, frozen=True, kw_only=True):
    """The controller did not run for so many milliseconds, up to the note."""

    gap_ms: Annotated[float, msgspec.Meta(ge=0, le=_S_MAX * 1000)]


class NodeEnded(Note, frozen=True, kw_only=True):
    """A node ended by itself: a "crash", or a "halt" over its disk.

    Attributes:
        node: which.
        exit: how, in words.
        log: the end of its log.
        damaged: whether its disk had lost data before.
    """

    node: str
    exit: str | None = None
    log: str | None = None
    damaged: bool = False

    @property
    def how(self) -> str:
        """How it ended, in words."""
        return "its exit status is unknown" if self.exit is None else self.exit


class Usable(Note, frozen=True, kw_only=True):
    """Whether the system was usable: after its start ("started", only if it was not), or once all was healed.

    Attributes:
        seconds: how long that took; None if it was not.
        waited_s: how long the harness waited, where it says so.
        missing: nodes that were not usable.
        problems: what was wrong with each of them.
    """

    seconds: Seconds | None = None
    waited_s: Seconds = 0.0
    missing: tuple[str, ...] = ()
    problems: dict[str, str] = {}

    def of_each(self) -> dict[str, str]:
        """For each node that was not usable what was wrong with it, "" where that is not known."""
        return {node: self.problems.get(node, "") for node in dict.fromkeys([*self.missing, *self.problems])}


class Converged(Note, frozen=True, kw_only=True):
    """Whether the replicas met once the load was over: after how many seconds, and what each had applied then."""

    seconds: Seconds | None = None
    applied: dict[str, int | None] = {}


class Interrupted(Note, frozen=True, kw_only=True):
    """Someone asked the run to end; how often by then.

    Attributes:
        requests: how often.
        why: what was wrong where the harness itself asked; "" for a person.
    """

    requests: int = 1
    why: str = ""


class Healed(Note, frozen=True, kw_only=True):
    """All faults are gone and all nodes were started."""


class Ended(Note, frozen=True, kw_only=True):
    """The procedure of the run is over, whichever way it ended: what a history without this had behind it is lost.

    Earlier versions did not write it.
    """


class Clocks(Note, frozen=True, kw_only=True):
    """How far the clocks of the nodes' hosts were from the controller's. By node, in seconds; empty where unknown.

    Attributes:
        offsets_s: how far the monotonic clock of its host is ahead of the controller's.
        errors_s: how far that may be from the truth.
        walls_s: how far the wall clock of its host is ahead of the controller's.
    """

    offsets_s: dict[str, Offset] = {}
    errors_s: dict[str, Seconds] = {}
    walls_s: dict[str, Offset] = {}

    @property
    def error_s(self) -> float:
        """The largest error; 0 without estimates."""
        return max(self.errors_s.values(), default=0.0)

    def knows(self, node: str) -> bool:
        """Whether times of the node's rows can be compared with others: a run says how its clock goes, or of no node.

        Without an estimate times are those of the node's own wall clock, which may show anything.
        """
        return not self.offsets_s or node in self.offsets_s

    def ahead_ns(self) -> dict[str, int]:
        """`offsets_s` in nanoseconds."""
        return {node: round(offset * 1e9) for node, offset in self.offsets_s.items()}


FORMS: Final[Mapping[str, type[Note]]] = {
    "clocks": Clocks,
    "phase": PhaseBegan,
    "stall": Stalled,
    "crash": NodeEnded,
    "halt": NodeEnded,
    "started": Usable,
    "healed": Healed,
    "recovered": Usable,
    "converged": Converged,
    "interrupted": Interrupted,
    "ended": Ended,
}
"""The notes that there are, by the function of the op."""

N = TypeVar("N", bound=Note)


def note_of(op: Op, form: type[N], source: str = "history") -> N:
    """The value of a note.

    Args:
        op: of the harness.
        form: that of its function.
        source: the file, as an error names it.

    Raises:
        HistoryFormatError: it is damaged.
    """
    assert FORMS.get(op.f) is form
    try:
        return msgspec.convert({} if op.value is None else op.value, form)
    except (msgspec.ValidationError, OverflowError) as error:
        raise HistoryFormatError(source, f"op {op.index}: the harness's note {op.f!r} is damaged: {error}") from error


def notes_of(ops: Iterable[Op], f: str, form: type[N]) -> list[tuple[Op, N]]:
    """The notes of one function among ops of the harness.

    Raises:
        HistoryFormatError: one of them is damaged.
    """
    return [(op, note_of(op, form)) for op in ops if op.f == f]


def check_notes(ops: Iterable[Op], source: str) -> None:
    """Refuse damaged notes.

    Args:
        ops: those of the harness.
        source: the file.

    Raises:
        HistoryFormatError: there is one.
    """
    for op in ops:
        if op.f not in FORMS:
            known = ", ".join(FORMS)
            raise HistoryFormatError(
                source, f"op {op.index}: the harness makes no note {op.f!r:.40}; known to this splitbrain are {known}"
            )
        note = note_of(op, cast("type[Note]", FORMS[op.f]), source)
        if isinstance(note, PhaseBegan) and note.phase not in PHASES:
            raise HistoryFormatError(source, f"op {op.index}: no phase of a run is named {note.phase!r:.40}")
