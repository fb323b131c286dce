"""The verdict of a checker that lists findings: what its answer says first, and how much of them it keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from splitbrain.checkers.consensus.rows import with_reason
from splitbrain.checkers.verdict import Valid, Verdict

Finding: TypeAlias = dict[str, Any]
"""One thing that was found: its `anomaly`, a `sentence`, and the rows that show it."""

LISTED: Final = 20
"""A verdict keeps that many findings."""


def verdict_of(
    checker: str,
    *,
    algorithm: str,
    found: Sequence[Finding],
    otherwise: str,
    figures: Mapping[str, Any],
    left_out: str = "",
    unknown: bool = False,
) -> Verdict:
    """The verdict of what was found, in the order in which it is to be read.

    Args:
        checker: its name.
        algorithm: how it judged.
        found: the findings; the first one speaks for all.
        otherwise: the sentence where there are none.
        figures: of the verdict.
        left_out: what is said behind the first finding of what could not be judged.
        unknown: whether the rows do not allow an answer, unless something was found.
    """
    valid: Valid = "false" if found else "unknown" if unknown else "true"
    verdict = Verdict(
        checker=checker,
        valid=valid,
        algorithm=algorithm,
        sentence=f"{_of_first(found)}{left_out}" if found else otherwise,
        anomalies=tuple(dict.fromkeys(finding["anomaly"] for finding in found)),
        evidence={"findings": list(found[:LISTED])} if found else {},
        figures=dict(figures),
    )
    return with_reason(verdict)


def _of_first(found: Sequence[Finding]) -> str:
    more = f" ({len(found)} findings in all.)" if len(found) > 1 else ""
    return f"{found[0]['sentence']}{more}"
