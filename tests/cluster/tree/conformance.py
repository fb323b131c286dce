"""How many cases of a folder hold: `python -m tests.cluster.tree.conformance FOLDER`.

Each file is `{"format": 1, "theme": ..., "cases": [...]}`. A case that does not hold is printed with the step at which
it differs, and why that is meant, if `differences.py` names it. The command ends with 1 if one differs for no such
reason.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tests.cluster.tree.agreement import agrees
from tests.cluster.tree.cases import Runner, UnknownOperationError
from tests.cluster.tree.differences import DIFFERENCES


@dataclass(frozen=True)
class Outcome:
    """Whether a case holds.

    Attributes:
        case: its id.
        problem: where it differs; None if it holds.
        reason: why that is meant; None if it is not.
    """

    case: str
    problem: str | None
    reason: str | None


def read_cases(folder: Path) -> list[dict[str, Any]]:
    """All cases of a folder, by file.

    Raises:
        ValueError: a file is no JSON, is of another format, or has a case without an id.
    """
    found: list[dict[str, Any]] = []
    for file in sorted(folder.glob("*.json")):
        try:
            content: Any = json.loads(file.read_text())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{file} is no JSON: {error}.") from None
        cases = _member(content, "cases")
        if not isinstance(cases, list):
            continue  # the manifest
        if _member(content, "format") != 1:
            raise ValueError(f"{file} is of format {_member(content, 'format')}; this program reads format 1.")
        every = cast("list[dict[str, Any]]", cases)
        if any(_member(case, "id") is None for case in every):
            raise ValueError(f"{file} has a case without an id.")
        found.extend(every)
    return found


def _member(what: Any, name: str) -> Any:
    return cast("dict[str, Any]", what).get(name) if isinstance(what, dict) else None


def run_case(case: dict[str, Any]) -> Outcome:
    """Carry out a case on an empty store."""
    problem = _problem(case)
    return Outcome(case["id"], problem, None if problem is None else DIFFERENCES.get(case["id"]))


def _problem(case: dict[str, Any]) -> str | None:
    runner = Runner()
    try:
        failed = runner.set_up(case.get("setup", ()))
        if failed:
            return f"its setup gave {failed[0]}"
        for number, step in enumerate(case["steps"], start=1):
            got = runner.step(step)
            if "expect" in step and not agrees(step["expect"], got):
                return f"step {number} ({step['op']}) gave {json.dumps(got)}, and not {json.dumps(step['expect'])}"
    except UnknownOperationError as error:
        return str(error)
    except Exception as error:  # a case that is not of the format must not end the others
        return f"it is not of the format, or the store failed: {type(error).__name__}: {error}"
    return None


def main(folder: Path) -> int:
    """Print what holds and what does not."""
    outcomes = [run_case(case) for case in read_cases(folder)]
    if not outcomes:
        print(f"There are no cases in {folder}.")
        return 1
    held = [outcome for outcome in outcomes if outcome.problem is None]
    print(f"{len(held)} of {len(outcomes)} cases hold.")
    for outcome in outcomes:
        if outcome.problem is not None:
            why = "not explained" if outcome.reason is None else f"as meant: {outcome.reason}"
            print(f"{outcome.case}: {outcome.problem} ({why})")
    return 0 if all(outcome.problem is None or outcome.reason for outcome in outcomes) else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.cluster.tree.conformance FOLDER")
    try:
        sys.exit(main(Path(sys.argv[1])))
    except (OSError, ValueError) as error:
        sys.exit(str(error))
