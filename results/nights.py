"""Nights: what `splitbrain nightly` leaves in `STORE/nights/NAME`, and the document of a night.

    journal.jsonl   a line for each thing that was done (`splitbrain.harness.campaigns.nightly.journal`)
    night.json      the night as one document, of the shape below; there once the night is over
    junit.xml, summary.md, night.html   the same for CI services and for people

The document is versioned by `format`. Fields are added without another version; a field that goes, or changes its
meaning, makes another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from splitbrain.results.baseline import Class
from splitbrain.results.changes import Trends
from splitbrain.results.errors import HistoryFormatError, RunNotFoundError, StoreVersionError, UsageError
from splitbrain.results.plainfile import DOCUMENT_BYTES, refuse_others
from splitbrain.results.runfigures import RunFigures
from splitbrain.results.values import NOT_JSON

FORMAT: Final = 1

PREFIX: Final = "night:"
"""What a night is named with where its name alone could be that of a run."""

FOLDER: Final = "nights"
FILE: Final = "night.json"

Why: TypeAlias = Literal["failed", "fixed", "fresh"]
"""Why a seed was run: it failed before, it is one of the matrix, or it was drawn."""

ErrorKind: TypeAlias = Literal["", "deploy", "harness"]
"""deploy: the system could not be built or started. harness: anything else that is not the system's fault."""

EndedBy: TypeAlias = Literal["runs", "budget", "interrupt", "disk"]
"""runs: nothing was left to do. disk: nothing but runs on real nodes, for which the store had no room."""


class Began(msgspec.Struct, frozen=True, kw_only=True, tag="began"):
    """The first line of a journal.

    Attributes:
        matrix: a digest of the matrix file.
        seed: from which seeds are drawn.
        began: when, ISO 8601 in UTC.
        neglected: names of cells that come first, since they got no run in the latest night that had them.
        failed: for each cell the seeds that failed before.
    """

    matrix: str
    seed: int
    began: str
    neglected: tuple[str, ...] = ()
    failed: Mapping[str, tuple[int, ...]] = {}


class Ran(msgspec.Struct, frozen=True, kw_only=True, tag="ran"):
    """A run of a night.

    Attributes:
        cell: the name of its cell.
        seed: its root seed.
        why: it was run with that seed.
        outcome: "pass", "violation", "inconclusive" or "harness error".
        signatures: of its violations, the leading one first.
        sentences: what is worth saying of it.
        reason: the code of the root cause why it is inconclusive, "" if it is not.
        error: what went wrong in the harness, None if nothing did.
        error_kind: of that.
        seconds: that it took: of CPU in simulation, of real time elsewhere.
        elapsed_s: seconds of the night when it ended.
        command: runs the same test again.
        run: its folder, None if nothing was stored.
        report: its page, likewise.
        history_hash: of the history of a simulated run.
        marks: how often coverage marks were reached, 0 included; in the journal only what no run before it showed:
            marks that it reached first, and those of which it was the first to say anything.
        figures: of the run; None if it has none, and in journals of older versions.
    """

    cell: str
    seed: int
    why: Why
    outcome: str
    command: str
    signatures: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    reason: str = ""
    error: str | None = None
    error_kind: ErrorKind = ""
    seconds: float = 0.0
    elapsed_s: float = 0.0
    run: str | None = None
    report: str | None = None
    history_hash: str = ""
    marks: Mapping[str, int] = {}
    figures: RunFigures | None = None


class Kept(msgspec.Struct, frozen=True, kw_only=True, tag="kept"):
    """A simulated violation was run once more into the store; `problem` says why not, or what differed."""

    cell: str
    seed: int
    run: str | None = None
    report: str | None = None
    problem: str | None = None
    elapsed_s: float = 0.0


class Replayed(msgspec.Struct, frozen=True, kw_only=True, tag="replayed"):
    """A violation was replayed once; `seen`: whether its leading anomaly came up again; `run`: its folder."""

    cell: str
    seed: int
    seen: bool
    run: str | None = None
    elapsed_s: float = 0.0


class Shrunk(msgspec.Struct, frozen=True, kw_only=True, tag="shrunk"):
    """A violation was shrunk: the plan, a command that replays it, and how large it is; or why not."""

    cell: str
    seed: int
    plan: str | None = None
    replay: str | None = None
    report: str | None = None
    ops: int | None = None
    faults: int | None = None
    problem: str | None = None
    elapsed_s: float = 0.0


Entry: TypeAlias = Began | Ran | Kept | Replayed | Shrunk


# --- the document -----------------------------------------------------------------------------------------------------


class CellOfNight(msgspec.Struct, frozen=True, kw_only=True):
    """A cell: its parts, how its runs came out (by outcome), the seconds they took, and its weight."""

    name: str
    workload: str
    nemesis: str
    system: str
    version: str
    backend: str
    bug: str
    outcomes: Mapping[str, int]
    seconds: float
    weight: float

    @property
    def runs(self) -> int:
        """How many there were."""
        return sum(self.outcomes.values())


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A run that failed.

    Attributes:
        cell, seed, signatures, command: as of the run.
        sentence: the first one.
        classification: new, known or flaky.
        uncovered: its signatures that no entry of the baseline covers.
        issue, owner, expires: of the entry of its leading signature, empty without one.
        expired: whether that entry has expired: then it is new again.
        replays, seen: how often it was replayed, and how often it came up again; of the first run with its leading
            signature in its cell, which stands for the others.
        run, report: what is stored of it, likewise.
        replay: the command that replays it.
        smaller: what shrinking came to; None where it was not tried.
        problem: why it could not be kept, or how it differed then.
        baseline_entry: an entry for the baseline file, "" for what is known.
    """

    cell: str
    seed: int
    classification: Class
    signatures: tuple[str, ...]
    sentence: str
    command: str
    replay: str
    uncovered: tuple[str, ...] = ()
    issue: str = ""
    owner: str = ""
    expires: str = ""
    expired: bool = False
    replays: int = 0
    seen: int = 0
    run: str | None = None
    report: str | None = None
    smaller: Shrunk | None = None
    problem: str | None = None
    baseline_entry: str = ""


class Fixed(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen before and is gone: for how many nights, when it was last seen, and the issue of its entry."""

    signature: str
    nights: int
    last_seen: str
    issue: str = ""


class Impossible(msgspec.Struct, frozen=True):
    """A cell of which no test can be made here."""

    cell: str
    why: str


class NotReached(msgspec.Struct, frozen=True, kw_only=True):
    """What a night did not reach.

    Attributes:
        marks: coverage marks that no run reached, of those that its nemeses can reach.
        cells: names of cells that got no run; they come first in the next night.
        impossible: cells of which no test can be made here.
        reasons: how many runs were inconclusive because of what, by code.
    """

    marks: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    impossible: tuple[Impossible, ...] = ()
    reasons: Mapping[str, int] = {}


class Night(msgspec.Struct, frozen=True, kw_only=True):
    """A night.

    Attributes:
        name: of its folder.
        matrix: the path of the matrix file.
        matrix_digest: of its content.
        began, ended: ISO 8601 in UTC.
        ended_by: why.
        budget_s, elapsed_s: seconds that it might take, and that it took.
        outcome: "violation" if one is new or flaky (or known, if that is strict), else as of many runs.
        exit_code: of the command.
        strict: whether known violations count.
        outcomes: how many runs came out how.
        cells: all of the matrix.
        violations: new ones first, then flaky ones, then known ones.
        errors: runs that ended in an error of the harness.
        fixed: what is gone for as many nights as the matrix says.
        expired: signatures of entries of the baseline that have expired.
        not_reached: what the night did not reach.
        stored_bytes: of the store when it ended.
        trends: which figures are no longer what they were in the nights before.
        versions: of splitbrain and what it uses.
        revision: the commit of its sources.
        format: the version of this shape.
    """

    name: str
    matrix: str
    matrix_digest: str
    began: str
    ended: str
    ended_by: EndedBy
    budget_s: float
    elapsed_s: float
    outcome: str
    exit_code: int
    strict: bool
    outcomes: Mapping[str, int]
    cells: tuple[CellOfNight, ...]
    violations: tuple[Violation, ...]
    errors: tuple[Ran, ...]
    fixed: tuple[Fixed, ...]
    expired: tuple[str, ...]
    not_reached: NotReached
    stored_bytes: int
    trends: Trends = Trends()
    versions: Mapping[str, str] = {}
    revision: str = ""
    format: int = FORMAT

    def of_class(self, wanted: Class) -> list[Violation]:
        """The violations of a class."""
        return [each for each in self.violations if each.classification == wanted]


def chosen(reference: str, names: Sequence[str], store: str) -> str | None:
    """The night that a reference names; None if it names none, and may name runs.

    Args:
        reference: the name of a night, or `night:` with its name, the beginning of it, or "latest".
        names: of the nights that there are, the oldest first.
        store: where they are, for messages.

    Raises:
        RunNotFoundError: there is no such night.
        UsageError: there are several.
    """
    if not reference.startswith(PREFIX):
        return reference if reference in names else None
    name = reference.removeprefix(PREFIX)
    if not names:
        raise RunNotFoundError(
            f"{reference}: there is no night in the store {store}: splitbrain nightly MATRIX.toml makes one there. If "
            "there are nights elsewhere, name their store with --store."
        )
    found = names[-1:] if name == "latest" else [each for each in names if name and each.startswith(name)]
    if not found:
        raise RunNotFoundError(
            f"{reference}: no night in the store {store} has a name that begins so. The latest is {PREFIX}{names[-1]}; "
            f"name one of {store}/{FOLDER}."
        )
    if len(found) > 1:
        raise UsageError(
            f"{name!r} is the beginning of {len(found)} nights in {store}/{FOLDER}: give more of the name, such as "
            f"{PREFIX}{found[-1]}."
        )
    return found[0]


def folders(store: Path) -> list[Path]:
    """The folders of all nights, the oldest first."""
    return sorted(path for path in (store / FOLDER).glob("*") if path.is_dir())


def read(folder: Path) -> Night | None:
    """A night; None if it is not over.

    Raises:
        StoreVersionError: a newer splitbrain wrote it.
        HistoryFormatError: its document is damaged.
    """
    path = folder / FILE
    refuse_others(path, DOCUMENT_BYTES)
    try:
        content = path.read_bytes()
        return decode(content, str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HistoryFormatError(str(path), f"cannot be read: {error.strerror}") from error


def decode(content: bytes, where: str) -> Night:
    """The night of a document; `where` it is, for messages.

    Raises:
        StoreVersionError: a newer splitbrain wrote it.
        HistoryFormatError: it is damaged.
    """
    try:
        version = msgspec.json.decode(content, type=_Versioned).format
        if version > FORMAT:
            raise StoreVersionError(
                f"{where} is in format {version}, this splitbrain reads up to {FORMAT}: upgrade splitbrain; nothing "
                "was changed."
            )
        found = msgspec.json.decode(content, type=Night)
    except NOT_JSON as error:
        raise HistoryFormatError(where, f"damaged: {error}") from error
    if not all(each.signatures for each in found.violations):
        raise HistoryFormatError(where, "damaged: a violation has no signature")
    return found


class _Versioned(msgspec.Struct):
    format: int = 1
