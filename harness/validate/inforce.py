"""What a nemesis reports to be in force, compared with what the deployment shows.

Coverage, quorum progress and the report judge a run by these reports. A nemesis that reports wrongly must not make a
correct system look wrong, nor a run without faults look tested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.results.errors import BackendError
from splitbrain.results.history import Op
from splitbrain.results.nemesisop import Said, said


async def compared(deployment: Deployment, done: Op) -> Op:
    """The completion of a nemesis op, with links and processes as the deployment shows them.

    Disks, clocks and CPUs stay as reported: no deployment shows them without a measurement.

    Args:
        deployment: the nodes.
        done: the completion, whose value is a report.

    Returns:
        The same op; `info`, with what differed as its error, if the report is wrong.
    """
    reported = said(done.value)
    try:
        seen = await _seen(deployment)
    except BackendError as problem:
        error = f"The backend cannot say what is in force: {problem}"
        return done if done.type == "info" else _unverified(done, {}, [error])
    problems = [*_differences(reported, seen), *_nothing(reported, seen)]
    return _unverified(done, seen, problems) if problems else done


async def left(deployment: Deployment) -> str | None:
    """What is still in force although the nemesis healed everything, in words; None if nothing is.

    Nodes that are stopped are not meant: the end of the faults starts them.
    """
    seen = await _seen(deployment)
    found = [f"{name}: {_text(_words(seen[name]))}" for name in ("cut", "links", "paused") if seen[name]]
    return "; ".join(found) or None


async def _seen(deployment: Deployment) -> dict[str, list[Any]]:
    states = {node: (await deployment.status(node)).state for node in deployment.nodes}
    return {
        "cut": sorted(list(link) for link in await deployment.dropped()),
        "links": sorted(list(link) for link in await deployment.disturbed()),
        "down": [node for node, state in states.items() if state == "stopped"],
        "paused": [node for node, state in states.items() if state == "paused"],
    }


def _differences(reported: Said, seen: Mapping[str, list[Any]]) -> Iterator[str]:
    for name, given in (("cut", reported.cut), ("links", reported.links), ("paused", reported.paused)):
        shown, listed = _words(seen[name]), _words(given or ())
        # A paused node may have been killed since it was looked at.
        missing = listed - shown - (_words(seen["down"]) if name == "paused" else set())
        if given is not None and (missing or shown - listed):
            yield f"The nemesis reports {name}: {_text(listed)}. The deployment shows: {_text(shown)}."
    # A node that ended by itself meanwhile is down, and no nemesis did it.
    if missing := _words(reported.down or ()) - _words(seen["down"]):
        yield f"The nemesis reports down: {_text(missing)}. The deployment does not show that."


def _nothing(reported: Said, seen: Mapping[str, list[Any]]) -> Iterator[str]:
    if reported.action != "start" or reported.over or not reported.is_hit or reported.evidence.bit:
        return
    if not (any(seen.values()) or reported.disks or reported.clocks or reported.cpus or reported.clients):
        yield (
            "The nemesis reports a fault, but the deployment shows none. Report over=true if the fault ends with the "
            'op, or evidence with "bit" that shows what it does.'
        )


def _unverified(done: Op, seen: Mapping[str, list[Any]], problems: list[str]) -> Op:
    value = {**cast("dict[str, Any]", done.value), **seen} if isinstance(done.value, dict) else done.value
    return done.complete("info", value, error=" ".join([*([done.error] if done.error else []), *problems]))


def _words(listed: Iterable[Any]) -> set[str]:
    return {each if isinstance(each, str) else " -> ".join(each) for each in listed}


def _text(words: Iterable[str]) -> str:
    return ", ".join(sorted(words)) or "none"
