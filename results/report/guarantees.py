"""Which guarantees were broken, which held, and what is known of weaker ones: only what the verdicts say.

A checker that judges several models at once (as Elle does for isolation levels) gives them in its evidence or figures:

    "models": {"violated": ["read-committed", "serializable"], "surviving": ["read-uncommitted"]}

the violated ones from the weakest on, the surviving ones from the strongest on. `linearizable` gives them if it
is violated, with those that are "undecided" and the reason as "why_undecided". Of a checker that judges one model, and
gives none, it is known that this one is broken, and nothing is known of weaker ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from splitbrain.results.quorum import RULES
from splitbrain.results.report.quorum import CHECKER
from splitbrain.results.text import clip

_PROVES: Final[Mapping[str, str]] = {
    "linearizable": "linearizability",
    "set": "linearizability of the set",
}
"""Checkers of a single consistency model, and that model."""

_FIGURES_ONLY: Final = ("stats", "coverage")
_MODELS_MAX: Final = 6


class Guarantees(NamedTuple):
    """What became of the guarantees, each as words.

    Attributes:
        broken: what was violated.
        surviving: the strongest models that were found to hold; empty where no checker says so.
        undecided: which models were looked at and not decided, with the reason, in a sentence; "" if none.
        unknown: which weaker models no checker judged, in a sentence; "" if none.
        held: checkers whose property was proven in this run.
    """

    broken: list[str]
    surviving: list[str]
    undecided: str
    unknown: str
    held: list[str]


def guarantees_of(verdicts: Sequence[Mapping[str, Any]]) -> Guarantees:
    """What verdicts (as in verdict.json) say of guarantees."""
    broken: list[str] = []
    surviving: list[str] = []
    undecided: list[str] = []
    unknown: list[str] = []
    for verdict in verdicts:
        if verdict.get("valid") is not False:
            continue
        name = str(verdict.get("checker", "?"))
        violated, holds = _models(verdict, "violated"), _models(verdict, "surviving")
        broken.append(_broken(name, violated, verdict))
        surviving += holds
        undecided += _undecided(verdict)
        if name in _PROVES and not violated:
            unknown.append(_PROVES[name])
    held = [str(verdict.get("checker", "?")) for verdict in verdicts if verdict.get("valid") is True]
    return Guarantees(
        broken=broken,
        surviving=list(dict.fromkeys(surviving)),
        undecided="; ".join(undecided),
        unknown=f"models weaker than {' and '.join(unknown)}, such as sequential consistency" if unknown else "",
        held=[clip(name, 60) for name in held if name not in _FIGURES_ONLY],
    )


def _broken(name: str, violated: Sequence[str], verdict: Mapping[str, Any]) -> str:
    if violated:
        others = f" (and with it {', '.join(violated[1:_MODELS_MAX])})" if violated[1:] else ""
        return f"{violated[0]}{others}"
    if name in _PROVES:
        return _PROVES[name]
    anomalies = [str(anomaly) for anomaly in cast("Sequence[Any]", verdict.get("anomalies") or ())]
    if name == CHECKER:
        anomalies = [f"{anomaly} {RULES[anomaly]}" if anomaly in RULES else anomaly for anomaly in anomalies]
    listed = clip(", ".join(anomalies[:_MODELS_MAX]), 200)
    return f"{clip(name, 60)} ({listed})" if listed else clip(name, 60)


def _undecided(verdict: Mapping[str, Any]) -> list[str]:
    models = _models(verdict, "undecided")
    if not models:
        return []
    why = next((str(each["why_undecided"]) for each in _models_of(verdict) if each.get("why_undecided")), "")
    return [", ".join(models[:_MODELS_MAX]) + (f" ({clip(why, 200)})" if why else "")]


def _models(verdict: Mapping[str, Any], which: str) -> list[str]:
    for models in _models_of(verdict):
        listed = models.get(which)
        if isinstance(listed, list):
            return [clip(str(model), 60) for model in cast("list[Any]", listed)]
    return []


def _models_of(verdict: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What a verdict says of models, in its evidence or in its figures."""
    for part in ("evidence", "figures"):
        found = verdict.get(part)
        models = cast("dict[str, Any]", found).get("models") if isinstance(found, dict) else None
        if isinstance(models, dict):
            yield cast("dict[str, Any]", models)
