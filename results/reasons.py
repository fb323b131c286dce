"""Why a run is inconclusive: a code for machines, a sentence and an advice for people, and which of many comes first.

The code's class says what has to change before the next run proves more: the machine, the test, the system, the
harness or a checker. "The machine was too busy" and "the test is too weak" are never one class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, cast

import msgspec


class Cause(StrEnum):
    """Where a reason lies."""

    MACHINE = "machine"
    TEST = "test"
    SYSTEM = "system"
    HARNESS = "harness"
    CHECKER = "checker"


class Code(StrEnum):
    """What a reason is. Root causes stand before what follows from them: the order here is the order of reasons."""

    CONTROLLER_KILLED = "controller-killed"
    HISTORY_CUT = "history-cut"
    INTERRUPTED = "interrupted"
    CHECKER_BROKE = "checker-broke"
    CLIENT_FAILED = "client-failed"
    MACHINE_BUSY = "machine-busy"
    NODE_ENDED = "node-ended"
    NOTHING_OK = "nothing-ok"
    NO_RECOVERY = "no-recovery"
    RECOVERY_NOT_SEEN = "recovery-not-seen"
    STOPPED_ANSWERING = "stopped-answering"
    MOSTLY_SILENT = "mostly-silent"
    NODE_SILENT = "node-silent"
    NODE_NOT_ASKED = "node-not-asked"
    NOT_JUDGED = "not-judged"
    NOT_EXERCISED = "not-exercised"
    NEVER_OK = "never-ok"
    TOO_FEW_OPS = "too-few-ops"
    READS_SAW_NOTHING = "reads-saw-nothing"
    FAULT_NOT_VERIFIED = "fault-not-verified"
    NO_FAULT = "no-fault"
    FAULT_DID_NOT_BITE = "fault-did-not-bite"
    FAULT_MET_NO_LOAD = "fault-met-no-load"
    NO_OCCASION = "no-occasion"
    NO_TELEMETRY = "no-telemetry"
    CHECKER_LIMIT = "checker-limit"
    UNDECIDED = "undecided"
    OTHER = "other"


CAUSES: Final[Mapping[Code, Cause]] = {
    Code.CONTROLLER_KILLED: Cause.HARNESS,
    Code.HISTORY_CUT: Cause.HARNESS,
    Code.INTERRUPTED: Cause.HARNESS,
    Code.CHECKER_BROKE: Cause.CHECKER,
    Code.CLIENT_FAILED: Cause.TEST,
    Code.MACHINE_BUSY: Cause.MACHINE,
    Code.NODE_ENDED: Cause.SYSTEM,
    Code.NOTHING_OK: Cause.SYSTEM,
    Code.NO_RECOVERY: Cause.SYSTEM,
    Code.RECOVERY_NOT_SEEN: Cause.HARNESS,
    Code.STOPPED_ANSWERING: Cause.SYSTEM,
    Code.MOSTLY_SILENT: Cause.TEST,
    Code.NODE_SILENT: Cause.SYSTEM,
    Code.NODE_NOT_ASKED: Cause.TEST,
    Code.NOT_JUDGED: Cause.TEST,
    Code.NOT_EXERCISED: Cause.TEST,
    Code.NEVER_OK: Cause.SYSTEM,
    Code.TOO_FEW_OPS: Cause.TEST,
    Code.READS_SAW_NOTHING: Cause.TEST,
    Code.FAULT_NOT_VERIFIED: Cause.HARNESS,
    Code.NO_FAULT: Cause.TEST,
    Code.FAULT_DID_NOT_BITE: Cause.TEST,
    Code.FAULT_MET_NO_LOAD: Cause.TEST,
    Code.NO_OCCASION: Cause.TEST,
    Code.NO_TELEMETRY: Cause.HARNESS,
    Code.CHECKER_LIMIT: Cause.CHECKER,
    Code.UNDECIDED: Cause.CHECKER,
    Code.OTHER: Cause.CHECKER,
}
"""The class of each code."""

ADVICE_FOR_BLOCKED: Final = "Let it await, or call what blocks with asyncio.to_thread."
"""To the author of code that blocks the event loop."""

_PLACES: Final = {code: place for place, code in enumerate(Code)}
_CODES: Final = frozenset(code.value for code in Code)


class Reason(msgspec.Struct, frozen=True):
    """Why a run proves too little.

    Attributes:
        code: what it is, for machines.
        sentence: what was seen, with figures.
        advice: what to change so that the next run proves more; "" where nothing helps but another run.
        cause: the class of the code, "class" in JSON; it follows from the code.
    """

    code: Code
    sentence: str
    advice: str = ""
    cause: Cause | None = msgspec.field(default=None, name="class")

    def __post_init__(self) -> None:
        """Fill in the class."""
        msgspec.structs.force_setattr(self, "cause", CAUSES[self.code])

    def __str__(self) -> str:
        """The sentence, and the advice behind it."""
        return f"{self.sentence} {self.advice}".rstrip()


def in_order(reasons: Iterable[Reason]) -> list[Reason]:
    """The reasons, root causes first; each sentence once; those of one code in the order given."""
    once: dict[tuple[Code, str], Reason] = {}
    for reason in reasons:
        once.setdefault((reason.code, reason.sentence), reason)
    return sorted(once.values(), key=lambda reason: _PLACES[reason.code])


def reason_of(value: Any) -> Reason:
    """A reason as a verdict.json holds it: an object; in those of older versions, or of a plug-in, a plain sentence."""
    if isinstance(value, Reason):
        return value
    if not isinstance(value, dict):
        return Reason(Code.OTHER, str(value))
    fields = cast("dict[str, Any]", value)
    code, sentence, advice = (str(fields.get(name) or "") for name in ("code", "sentence", "advice"))
    return Reason(Code(code) if code in _CODES else Code.OTHER, sentence or code, advice)


def reasons_of(verdicts: Iterable[Mapping[str, Any]]) -> list[Reason]:
    """The reasons that the verdicts of a verdict.json give, root causes first; "unknown" is one by itself."""
    return in_order(reason for verdict in verdicts for reason in _of_one(verdict))


def _of_one(verdict: Mapping[str, Any]) -> Iterator[Reason]:
    value: Any = verdict.get("inconclusive") or ()
    yield from map(reason_of, value)
    if not value and verdict.get("valid") == "unknown":
        yield Reason(Code.UNDECIDED, str(verdict.get("sentence") or "a checker could not decide."))
