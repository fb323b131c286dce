"""One verdict on many small histories of transactions, each of which was judged by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from splitbrain.checkers.transactions.models import boundary
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason

_PLURALS: Final = {"universe": "universes", "key": "independent_keys"}
"""What each of the histories may be, and the name of the figure that says how many there are."""

LISTED: Final = 20
"""The largest number of broken universes that the evidence lists."""


def merged(checker: str, verdicts: Sequence[Verdict], *, by_process: bool, of: str = "universe") -> Verdict:
    """The verdict on all of them.

    Args:
        checker: its name.
        verdicts: one of each universe.
        by_process: whether they are judged by the order of processes, which may join several universes to a cycle.
        of: what each of them is.
    """
    broken = [each for each in verdicts if each.valid == "false"]
    sound = [each for each in verdicts if each.valid == "true" and not each.inconclusive]
    totals = Counter[str]()
    for each in verdicts:
        totals.update(each.figures)
    types = sorted({name for each in verdicts for name in each.evidence.get("anomaly_types", ())})
    reasons = [
        reason for each in verdicts for reason in each.inconclusive if not sound or reason.code == Code.UNDECIDED
    ]
    if by_process:
        reasons.append(
            Reason(
                Code.NOT_JUDGED,
                f"The order in which a process went from one {of} to another was not judged.",
                "Ask for a model without sessions, or with real time, such as strict-serializable.",
            )
        )
    return Verdict(
        checker=checker,
        valid="false" if broken else "true" if sound else "unknown",
        algorithm=verdicts[0].algorithm if verdicts else "",
        sentence=_sentence(verdicts, broken, totals, of),
        anomalies=tuple(dict.fromkeys(name for each in broken for name in each.anomalies)),
        inconclusive=() if broken else tuple(dict.fromkeys(reasons)) or _nothing(sound, of),
        evidence=_evidence(broken, types) if broken else {},
        figures={**totals, _PLURALS[of]: len(verdicts), "broken": len(broken)},
        seconds=sum(each.seconds for each in verdicts),
    )


def _nothing(sound: Sequence[Verdict], of: str) -> tuple[Reason, ...]:
    return () if sound else (Reason(Code.READS_SAW_NOTHING, f"No {of} was judged: there is none."),)


def _sentence(verdicts: Sequence[Verdict], broken: Sequence[Verdict], totals: Counter[str], of: str) -> str:
    if broken:
        more = f" ({counted(len(broken), of)} are broken.)" if len(broken) > 1 else ""
        return f"{of.capitalize()} {broken[0].key}: {broken[0].sentence}{more}"
    return (
        f"In {counted(len(verdicts), of)} nothing contradicts what was asked: "
        f"{totals['transactions']} transactions, {totals['edges']} dependencies without a cycle."
    )


def _evidence(broken: Sequence[Verdict], types: Sequence[str]) -> dict[str, Any]:
    weakest, stronger = boundary(types)
    return {
        **broken[0].evidence,
        "anomaly_types": list(types),
        "not": list(weakest),
        "also_not": list(stronger),
        "key": broken[0].key,
        "keys": [each.key for each in broken[:LISTED]],
    }
