"""What checkers that judge each key alone share: findings, the verdict on one key, and that on the run of all keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from splitbrain.checkers.verdict import Valid, Verdict
from splitbrain.results.calls import place, seconds
from splitbrain.results.errors import UsageError
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

LISTED: Final = 20
"""The largest number of findings, and of broken keys, in the evidence."""


class Finding(msgspec.Struct, frozen=True):
    """One anomaly, in words, with the rows that prove it."""

    anomaly: str
    sentence: str
    rows: tuple[int, ...]


class Judge(msgspec.Struct, frozen=True):
    """What each verdict of one checker has.

    Attributes:
        checker: its name.
        algorithm: how it judges.
    """

    checker: str
    algorithm: str

    def key(
        self,
        key: str | None,
        table: pa.Table,
        findings: Sequence[Finding],
        praise: str,
        figures: dict[str, Any],
        *,
        exercised: bool,
    ) -> Verdict:
        """The verdict on one key.

        Args:
            key: None if the history names none.
            table: holds the rows of the findings.
            findings: what is wrong; the first one speaks.
            praise: what to say if there are none.
            figures: of the key.
            exercised: whether any answer was seen that could have been wrong.
        """
        valid: Valid = "false" if findings else "true" if exercised else "unknown"
        return Verdict(
            checker=self.checker,
            valid=valid,
            key=key,
            algorithm=self.algorithm,
            sentence=findings[0].sentence if findings else praise,
            inconclusive=(Reason(Code.READS_SAW_NOTHING, praise),) if valid == "unknown" else (),
            anomalies=tuple(dict.fromkeys(finding.anomaly for finding in findings)),
            evidence=evidence_of(table, findings),
            figures=figures,
        )

    def run(
        self, verdicts: Iterable[Verdict], praise: Callable[[Sequence[Verdict], Mapping[str, int]], str]
    ) -> Verdict:
        """The verdict on the run: broken keys first. If nothing of any key could have been wrong, it is unknown.

        Args:
            verdicts: one of each key.
            praise: what to say if no key is broken: of the verdicts that are true, and the sums of all figures.
        """
        found = list(verdicts)
        broken = [verdict for verdict in found if verdict.valid == "false"]
        proven = [verdict for verdict in found if verdict.valid == "true"]
        totals = Counter[str]()
        for verdict in found:
            totals.update(verdict.figures)
        first = min(broken, key=lambda verdict: max(verdict.evidence["ops"]), default=None)
        if first is None:
            sentence = praise(proven, totals)
        else:
            sentence = first.sentence if len(broken) == 1 else f"{first.sentence} ({len(broken)} keys are broken.)"
        return Verdict(
            checker=self.checker,
            valid="false" if broken else "true" if proven else "unknown",
            algorithm=self.algorithm,
            key=None,
            sentence=sentence,
            inconclusive=() if broken or proven else (Reason(Code.READS_SAW_NOTHING, sentence),),
            anomalies=tuple({anomaly: None for verdict in broken for anomaly in verdict.anomalies}),
            evidence={}
            if first is None
            else {**first.evidence, "key": first.key, "keys": [verdict.key for verdict in broken[:LISTED]]},
            figures={**totals, "broken": len(broken)},
            seconds=sum(verdict.seconds for verdict in found),
        )


def function_option(checker: str, options: Mapping[str, Any], name: str) -> str:
    """The name of a function in the history; it is called as the option unless another name is given.

    Raises:
        UsageError: it is no text.
    """
    value = options.get(name, name)
    if not isinstance(value, str):
        raise UsageError(f"checker {checker}: option {name!r} must be the name of a function, not {value!r}.")
    return value


def moment(table: pa.Table, row: int) -> str:
    """When a row happened, in words."""
    return f"{seconds(table['time'][row].as_py()):.3f} s"


def answer(table: pa.Table, row: int) -> str:
    """Which node answered with this row, and when, in words; the process if no node is known."""
    node = table["node"][row].as_py() or f"process {table['process'][row].as_py()}"
    return f"{node} at {moment(table, row)}"


def violated(
    checker: str, table: pa.Table, findings: Sequence[Finding], figures: dict[str, Any], algorithm: str = "scan"
) -> Verdict:
    """The verdict of a run with findings, of which the first is told in its sentence."""
    more = f" ({counted(len(findings) - 1, 'more finding')}.)" if len(findings) > 1 else ""
    return Verdict(
        checker=checker,
        valid="false",
        algorithm=algorithm,
        sentence=findings[0].sentence + more,
        anomalies=tuple(dict.fromkeys(found.anomaly for found in findings)),
        evidence=evidence_of(table, findings),
        figures=figures,
    )


def evidence_of(table: pa.Table, findings: Sequence[Finding]) -> dict[str, Any]:
    """The ops of the first finding; sentences and ops of some more."""
    if not findings:
        return {}
    index = table["index"]

    def ops(finding: Finding) -> list[int]:
        return [index[row].as_py() for row in finding.rows]

    return {
        "ops": ops(findings[0]),
        "witness": [place(table, row) for row in findings[0].rows],
        "findings": [{"anomaly": f.anomaly, "sentence": f.sentence, "ops": ops(f)} for f in findings[:LISTED]],
    }
