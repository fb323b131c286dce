"""Every transactional case of the published histories, beside what its manifest says.

    python -m tests.checkers.transactions.corpora FOLDER [--only WORD]

prints a table, and exits with 1 if a case differs without a reason in `DIFFERENCES`. `valid` and the models that are
ruled out must be equal; anomaly types must be a superset, and every witness must pass `verify`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa

from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.judging import Expected, Workload
from splitbrain.checkers.transactions.models import canonical
from splitbrain.checkers.transactions.report import judged
from splitbrain.results.formats import edn_text, read_table
from splitbrain.results.formats.edn import read_slowly
from splitbrain.results.formats.rows import table_of

_SATURATED: Final = ("rw_pc_n500_s1", "rw_pc_n500_s2", "rw_pc_n500_s3", "rw_rc_n500_info_s1", "rw_rc_n500_s1")

DIFFERENCES: Final[Mapping[str, str]] = {
    **{
        f"rw-register-sim {name}.edn {mode}": "saturation orders versions that Elle leaves open"
        for name in _SATURATED
        for mode in ("plain", "wfr")
    },
    "golden 64 checker-test G2-item transaction-order": "recorded with an order of other ops",
    **dict.fromkeys(
        (
            "golden 52 lost-update-test",
            "golden 53 checker-test Read doesn't return what was just been written",
            "golden 72 checker-test G2-item",
            "golden 73 checker-test G2-item",
            "golden 74 checker-test internal",
            "golden 76 checker-test wfr",
            "golden 77 checker-test wfr",
            "elle-cli rw-register.json",
        ),
        "a value was read that no transaction wrote",
    ),
    **dict.fromkeys(
        ("golden 82 g2-predicate-read-unseen-test", "golden 85 failure-to-observe-test"),
        "no snapshot shows what a predicate read found there",
    ),
}
"""Cases in which ours differs, and why; docs/transactions.md has a paragraph for each reason."""

NOT_WITNESSED: Final = frozenset({"cycle-search-timeout"})
"""What Elle reports instead of an anomaly."""


@dataclass(frozen=True)
class Case:
    """A history, and what is known of it.

    Attributes:
        name: folder and file or number.
        load: gives the history.
        workload: of the history.
        expected: models and anomalies that it is judged by.
        assumptions: of registers.
        valid: as published; None where nothing is proven.
        types: anomaly types as published.
        ruled_out: "not" as published; None where it is not.
    """

    name: str
    load: Callable[[], pa.Table]
    workload: Workload
    expected: Expected
    assumptions: Assumptions
    valid: str | None
    types: tuple[str, ...]
    ruled_out: tuple[str, ...] | None


@dataclass(frozen=True)
class Row:
    """A case, and what came out."""

    case: Case
    valid: str
    types: tuple[str, ...]
    ruled_out: tuple[str, ...]
    problems: tuple[str, ...]


def cases(folder: Path) -> Iterator[Case]:
    """All transactional cases of a folder of corpora."""
    for make in (_golden, _elle_histories, _elle_cli, _simulated_lists, _simulated_registers, _weak_levels):
        yield from make(folder)


def judge(case: Case) -> Row:
    """Judge a case, and say what differs."""
    found = judged(case.load(), case.workload, case.expected, case.assumptions, case.name)
    findings = found.findings
    problems: list[str] = []
    if case.valid is not None and findings.valid != case.valid:
        problems.append(f"valid is {findings.valid}, not {case.valid}")
    if case.ruled_out is not None and findings.ruled_out != case.ruled_out:
        problems.append(f"not is {list(findings.ruled_out)}, not {list(case.ruled_out)}")
    missing = [each for each in case.types if each not in findings.anomaly_types and each not in NOT_WITNESSED]
    problems.extend(f"{each} is missing" for each in missing if not _is_named(each, findings.anomaly_types))
    problems.extend(found.unverified)
    return Row(case, findings.valid, findings.anomaly_types, findings.ruled_out, tuple(problems))


def _is_named(anomaly: str, types: Sequence[str]) -> bool:
    """Whether "a cycle exists" was replaced by a cycle that rules out the same model."""
    from splitbrain.checkers.transactions.models import EXISTS, impossible

    return anomaly.endswith(EXISTS) and anomaly.removesuffix(EXISTS) in impossible(types)


# --- readers ----------------------------------------------------------------------------------------------------------


def _golden(folder: Path) -> Iterator[Case]:
    lines = (folder / "elle-testsuite-golden" / "cases.edn").read_text().splitlines()
    for number, line in enumerate(lines, 1):
        case = cast("dict[str, Any]", edn_text.parse(line))
        if case["checker"] not in ("list-append", "rw-register", "closed-predicate"):
            continue
        options = case["opts"]
        models = tuple(options.get("consistency-models", ["strict-serializable"]) or ())
        about = " ".join([case["test"], *map(str, case["testing"])])
        yield Case(
            f"golden {number} {about}",
            lambda history=case["history"]: _of_ops(history),
            case["checker"],
            Expected(models, tuple(options.get("anomalies") or ())),
            Assumptions(
                sequential_keys=bool(options.get("sequential-keys?")),
                linearizable_keys=bool(options.get("linearizable-keys?")),
                wfr_keys=bool(options.get("wfr-keys?")),
                transaction_order=_order(options.get("transaction-order"), case),
            ),
            str(case["valid?"]).lower(),
            tuple(case["anomaly-types"]),
            tuple(sorted(map(canonical, case["not"]))),
        )


def _order(given: Any, case: dict[str, Any]) -> Mapping[int, int] | None:
    """The order of transactions by the index of their completion; invocations that were added later stand before."""
    if given is None:
        return None
    added = len(case["history"]) // 2 if case["invokes-synthesised?"] else 0
    return {int(row) + added: int(place) for row, place in given.items()}


def _of_ops(ops: list[dict[str, Any]]) -> pa.Table:
    text = "\n".join(edn_text.written(op) for op in _one_at_a_time(ops))
    return table_of(read_slowly(text, "golden"), "golden", "no")


def _one_at_a_time(ops: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give an op that begins while its process has another one open a process of its own: Elle pairs them by chance."""
    open_ops: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for op in ops:
        if op["type"] == "invoke":
            process = op["process"]
            while any(each["process"] == process for each in open_ops):
                process += 1000
            op = {**op, "process": process}
            open_ops.append(op)
        else:
            mine = next(each for each in open_ops if each["process"] % 1000 == op["process"] and _fits(each, op))
            open_ops.remove(mine)
            op = {**op, "process": mine["process"]}
        found.append(op)
    return found


def _fits(invoke: dict[str, Any], complete: dict[str, Any]) -> bool:
    if invoke.get("f") == "init":
        return complete.get("f") == "init"
    return [mop[:2] for mop in invoke["value"]] == [mop[:2] for mop in complete["value"]]


def _manifest(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "MANIFEST.json").read_text())["files"]


def _elle_histories(folder: Path) -> Iterator[Case]:
    for entry in _manifest(folder / "elle-histories"):
        path = folder / "elle-histories" / entry["file"]
        yield Case(
            f"elle-histories {entry['file']}",
            lambda path=path: read_table(path),
            "list-append",
            Expected(tuple(entry["consistency_model"].split("+"))),
            Assumptions(),
            str(entry["expected"]).lower(),
            tuple(entry["expected_anomalies"]),
            tuple(entry["expected_not"]) if "expected_not" in entry else None,
        )


def _elle_cli(folder: Path) -> Iterator[Case]:
    for entry in _manifest(folder / "elle-cli"):
        if entry["model"] not in ("list-append", "rw-register"):
            continue
        path = folder / "elle-cli" / entry["file"]
        _, _, named = entry["options"].partition("--consistency-models ")
        yield Case(
            f"elle-cli {path.name}",
            lambda path=path: read_table(path),
            entry["model"],
            Expected((named or "strict-serializable",)),
            Assumptions(),
            str(entry["expected"]).lower(),
            (),
            None,
        )


def _simulated_lists(folder: Path) -> Iterator[Case]:
    for entry in _manifest(folder / "history-sim-list-append"):
        path = folder / "history-sim-list-append" / entry["file"]
        yield Case(
            f"history-sim {entry['file']}",
            lambda path=path: read_table(path),
            "list-append",
            Expected((entry["consistency_model"],)),
            Assumptions(),
            str(entry["expected"]).lower(),
            tuple(entry["anomaly_types"]),
            tuple(entry["elle_not"]),
        )


def _simulated_registers(folder: Path) -> Iterator[Case]:
    for entry in _manifest(folder / "rw-register-sim"):
        path = folder / "rw-register-sim" / entry["file"]
        for mode, elle in entry.get("elle", {}).items():
            if not elle["golden"]:
                continue
            yield Case(
                f"rw-register-sim {entry['file']} {mode}",
                lambda path=path: read_table(path),
                "rw-register",
                Expected((entry["consistency_model"],)),
                Assumptions(wfr_keys=mode == "wfr"),
                elle["valid"],
                tuple(elle["anomaly_types"]),
                tuple(elle["elle_not"]),
            )


WEAK_LEVELS: Final = {
    "rc": "strong-session-monotonic-atomic-view",
    "ra": "strong-session-read-atomic",
    "cc": "causal",
}
"""The models that are AWDIT's levels, which know sessions."""


def _weak_levels(folder: Path) -> Iterator[Case]:
    """Files of AWDIT and Plume, by each of the three levels that AWDIT judges."""
    for source in ("awdit-tests", "rw-register-sim"):
        for entry in _manifest(folder / source):
            if entry["consistency_model"] != "RC/RA/CC":
                continue
            path = folder / source / entry["file"]
            for level, model in WEAK_LEVELS.items():
                yield Case(
                    f"{source} {entry['file']} {level}",
                    lambda path=path: read_table(path),
                    "rw-register",
                    Expected((model,)),
                    Assumptions(),
                    str(entry["expected"][level]).lower(),
                    (),
                    None,
                )


# --- the command ------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Print the table; 1 if something differs without a reason."""
    if not arguments:
        print("usage: python -m tests.checkers.transactions.corpora FOLDER [--only WORD]", file=sys.stderr)
        return 254
    only = arguments[2] if len(arguments) > 2 else ""
    differing = agreeing = explained = 0
    for case in cases(Path(arguments[0])):
        if only not in case.name:
            continue
        row = judge(case)
        reason = DIFFERENCES.get(case.name)
        mark = "ok" if not row.problems else "differs" if reason is None else "explained"
        differing += mark == "differs"
        agreeing += mark == "ok"
        explained += mark == "explained"
        print(f"{mark:9} {row.valid:7} {case.name}  {' '.join(row.types)}")
        for problem in row.problems:
            print(f"{'':17} {problem}")
        if row.problems and reason is not None:
            print(f"{'':17} because: {reason}")
    print(f"{agreeing} agree, {explained} differ for a reason, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
