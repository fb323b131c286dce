"""What a run's verdict.json holds: written with a seal, refused where it was changed since."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec

from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.madefrom import FORMAT as MADE_FROM
from splitbrain.results.madefrom import Basis, is_other, seal
from splitbrain.results.reasons import reasons_of
from splitbrain.results.values import NOT_JSON
from splitbrain.results.versioned import FORMAT, read_document, write_document


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What verdict.json holds.

    Attributes:
        outcome: "pass", "violation", "inconclusive" or "harness error".
        engine: who judged: "inline" or "spark".
        harness_error: what went wrong in the harness, None if nothing did.
        verdicts: one object per checker, with the fields of `splitbrain.checkers.verdict.Verdict`; `valid` is true,
            false or "unknown".
        reasons: why the run proves too little, by all verdicts, root causes first: each a
            `splitbrain.results.reasons.Reason` with code, class, sentence and advice. Empty where it proves enough, and
            in files of older versions.
        signatures: those of the violations (`splitbrain.results.signatures`), the leading one first. Empty
            where nothing is violated, and in files of older versions.
        made_from: what they were made from (`splitbrain.results.madefrom.record_of`); None if that is not known, or
            does not matter because they are to be made again: a checker broke.
        format: the version of this shape.
    """

    outcome: str
    engine: str
    harness_error: str | None
    verdicts: list[dict[str, Any]]
    reasons: list[dict[str, Any]] = msgspec.field(default_factory=list[dict[str, Any]])
    signatures: list[str] = msgspec.field(default_factory=list[str])
    made_from: Any = None
    format: int = FORMAT


def plain_verdict(verdict: msgspec.Struct) -> dict[str, Any]:
    """A `splitbrain.checkers.verdict.Verdict` for JSON, with every field; `valid` is true, false or "unknown"."""
    fields = {name: getattr(verdict, name) for name in verdict.__struct_fields__}
    document = cast("dict[str, Any]", msgspec.to_builtins(fields, str_keys=True))
    return {**document, "valid": {"true": True, "false": False}.get(document["valid"], document["valid"])}


def write_judgement(
    path: Path,
    verdicts: Sequence[dict[str, Any]],
    outcome: str,
    *,
    engine: str,
    harness_error: str | None,
    signatures: list[str],
    basis: Basis | None,
) -> Judgement:
    """Write a verdict.json, and return what it holds.

    Args:
        path: the file.
        verdicts: one per checker, as `plain_verdict`.
        outcome: what they add up to.
        engine: who judged.
        harness_error: what went wrong in the harness.
        signatures: those of the violations.
        basis: what the verdicts were made from, where they need not be made again as long as it is the same.

    Raises:
        StoreVersionError: a newer splitbrain wrote the one that is there.
    """
    read_document(path, dict[str, Any])
    judged = Judgement(
        outcome=outcome,
        engine=engine,
        harness_error=harness_error,
        verdicts=list(verdicts),
        reasons=msgspec.to_builtins(reasons_of(verdicts)),
        signatures=signatures,
    )
    if basis is not None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        read_again = msgspec.json.decode(msgspec.json.encode(judged), type=Judgement)
        made = {**msgspec.to_builtins(basis), "judged": now, "seal": seal(read_again), "format": MADE_FROM}
        judged = msgspec.structs.replace(judged, made_from=made)
    write_document(path, judged)
    return judged


def read_judgement(path: Path) -> Judgement | None:
    """What a verdict.json says, None if there is none.

    Raises:
        StoreVersionError: a newer splitbrain wrote it.
        HistoryFormatError: it is damaged, or was changed since it was written.
    """
    otherwise = f", or remove it and judge the run again: splitbrain analyze {shlex.quote(str(path.parent))}"
    found = read_document(path, dict[str, Any], otherwise)
    if found is None:
        return None
    try:
        judgement = msgspec.convert(found, Judgement)
    except NOT_JSON as error:
        raise HistoryFormatError(str(path), f"damaged: {error}. Restore it from a copy{otherwise}") from error
    if is_other(found):
        raise HistoryFormatError(
            str(path),
            f"it was damaged or changed since it was written: its seal is another. Restore it from a copy{otherwise}",
        )
    return judgement
