"""How many cases of a folder hold: `python -m tests.cluster.queues.conformance FOLDER`.

The folder has files of the format that the README beside RabbitMQ's cases describes: `{"format": 1, "theme": ...,
"cases": [...]}`. A case holds if every step gives what its `expect` and its `also` say. One that does not is printed
with the step, and with why that is meant: `differences.py` names the case, or the case itself says that it shows a
defect of RabbitMQ (`upstream_defect`) or an order that nothing fixes (`order_dependent`). What depends on 4.0.5 at
`noconnection` (`check_requirement`), and what later versions changed (`later`), is held to 4.0.5 (decision D18). The
command ends with 1 if a case differs for no such reason, or was not understood.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.cluster.queues.agreement import disagreement
from tests.cluster.queues.cases import NotUnderstoodError, Runner
from tests.cluster.queues.differences import DIFFERENCES

_KEYS: Final = {
    "id", "theme", "items", "source", "config", "consumers", "steps", "derived", "adapted", "check_requirement",
    "order_dependent", "upstream_defect", "later",
}  # fmt: skip
_EXCUSES: Final = {
    "upstream_defect": "the case shows a defect of RabbitMQ 4.0.5, which later versions repair",
    "order_dependent": "the case depends on an order that no requirement fixes",
}


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
        ValueError: a file is of another format.
    """
    found: list[dict[str, Any]] = []
    for file in sorted(folder.glob("*.json")):
        content = json.loads(file.read_text())
        if not isinstance(content.get("cases"), list):
            continue  # the manifest
        if content.get("format") != 1:
            raise ValueError(f"{file} is of format {content.get('format')}; this program reads format 1.")
        found.extend(content["cases"])
    return found


def run_case(case: dict[str, Any], *, restores: bool = False) -> Outcome:
    """Carry out a case on a new queue; with `restores` the queue is written down and read again after each step."""
    try:
        problem = _problem(case, restores)
    except NotUnderstoodError as error:
        return Outcome(case["id"], f"not understood: {error}", None)
    if problem is None:
        return Outcome(case["id"], None, None)
    excuses = [excuse for flag, excuse in _EXCUSES.items() if case.get(flag)]
    return Outcome(case["id"], problem, DIFFERENCES.get(case["id"], excuses[0] if excuses else None))


def _problem(case: dict[str, Any], restores: bool) -> str | None:
    unknown = sorted(set(case) - _KEYS)
    if unknown:
        raise NotUnderstoodError(f"a case has {', '.join(unknown)}, which the format does not name")
    runner = Runner(case["config"], case["consumers"], restores=restores)
    for number, step in enumerate(case["steps"], start=1):
        got = runner.step(step)
        for weight in ("expect", "also"):
            problem = disagreement(step.get(weight, {}), got)
            if problem is not None:
                return f"step {number} ({step['op']}), {weight}: {problem}"
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
        sys.exit("usage: python -m tests.cluster.queues.conformance FOLDER")
    sys.exit(main(Path(sys.argv[1])))
