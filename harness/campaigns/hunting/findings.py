"""What a hunt leaves in the store: a run of each kind of what it found, and a file with its figures."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.compose import backend_of, compose
from splitbrain.harness.campaigns.hunting.tally import Tally
from splitbrain.harness.campaigns.hunting.trial import Trial
from splitbrain.harness.campaigns.interrupts import Interrupts
from splitbrain.harness.campaigns.judging import Conclusion
from splitbrain.harness.campaigns.record import run_and_judge
from splitbrain.results import arrow
from splitbrain.results.atomic import replace_file
from splitbrain.results.errors import SplitbrainError, UsageError

KEPT_MAX: Final = 10
"""Kinds of violations, and of errors, of which one run each is kept: a hunt in broken code must not fill the disk."""

NOT_KEPT: Final = "it was not run again: the hunt was interrupted."
PART: Final = "it was interrupted when it was run again: the run that was kept is a part of it."


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and where it was kept.

    Attributes:
        trial: the first trial of its kind.
        conclusion: of the same test, run again into the store; None if that was not possible.
        problem: why that is so, or in what the two differ; None if they are the same.
        interrupted: whether that is because there was no time: it says nothing of the harness.
    """

    trial: Trial
    conclusion: Conclusion | None = None
    problem: str | None = None
    interrupted: bool = False


def keep(tally: Tally, store: Path, interrupts: Interrupts) -> list[Finding]:
    """Run the first trial of each kind again, into the store, and see that the history is the same to the byte.

    A request to end that comes meanwhile breaks that off: what was not run again by then is only named.
    """
    worst = [*tally.found(Outcome.VIOLATION)[:KEPT_MAX], *tally.found(Outcome.HARNESS_ERROR)[:KEPT_MAX]]
    found: list[Finding] = []
    for trial in worst:
        if found and found[-1].interrupted:
            found.append(Finding(trial=trial, problem=NOT_KEPT, interrupted=True))
        else:
            found.append(_kept(trial, store, interrupts))
    return found


def _kept(trial: Trial, store: Path, interrupts: Interrupts) -> Finding:
    if not trial.repeatable:
        return Finding(trial=trial)
    try:
        with interrupts.breaking():
            conclusion = run_and_judge(compose(trial.options), backend_of(trial.options), store)
            problem = PART if interrupts.broken else _difference(trial, conclusion)
        return Finding(trial=trial, conclusion=conclusion, problem=problem, interrupted=interrupts.broken)
    except KeyboardInterrupt:
        return Finding(trial=trial, problem=NOT_KEPT, interrupted=True)
    except SplitbrainError as error:
        same = str(error) == trial.harness_error
        problem = None if same else f"it could not be run again: {error}"
        return Finding(trial=trial, problem=problem, interrupted=interrupts.broken)


def _difference(trial: Trial, conclusion: Conclusion) -> str | None:
    """In what the run that was kept differs from the one that was found, None if in nothing."""
    history = conclusion.run.history()
    figures = conclusion.run.read_test().get("simulation", {})
    if trial.difference is not None:  # it is known to differ from process to process
        return None
    found = {"history": trial.history_hash, "randomness": trial.fingerprint, "outcome": trial.outcome.value}
    again = {
        "history": arrow.history_hash(history),
        "randomness": figures.get("fingerprint"),
        "outcome": conclusion.outcome.value,
    }
    different = [name for name in found if found[name] != again[name]]
    if not different:
        return None
    return (
        f"the simulation is not deterministic: run again, the same seed gave another {' and another '.join(different)}."
    )


# --- figures ----------------------------------------------------------------------------------------------------------


def folder(store: Path) -> Path:
    """Where hunts leave their figures; made if it is not there.

    Raises:
        UsageError: the store cannot be written.
    """
    try:
        (store / "hunts").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(store, error) from error
    return store / "hunts"


def record(store: Path, document: Mapping[str, Any], first_seed: int) -> Path:
    """Leave what a hunt came to in `STORE/hunts/<UTC time>-<first seed>.json`; the file.

    Raises:
        UsageError: the store cannot be written.
    """
    now = datetime.now(UTC)
    path = folder(store) / f"{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03d}Z-{first_seed}.json"
    text = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    try:
        replace_file(path, lambda aside: aside.write_bytes(text))
    except OSError as error:
        raise _unwritable(store, error) from error
    return path


def _unwritable(store: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot write to the store {store}: {error.strerror}. Choose another with --store.")
