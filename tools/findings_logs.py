"""Lines that nodes logged, by the clock of the run: what stands beside a fault, up to the moment of the violation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

LOG: Final = "log"
"""The file in the folder of a node in a run."""

KEPT: Final = 14
"""How many lines are shown of one violation."""

WIDTH: Final = 200
_BYTES: Final = 64 << 20

_ISO: Final = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?\d*(?:\s?(?:Z|\+00:00))?")
_REDIS: Final = re.compile(r"(\d\d \w{3} \d{4}) (\d\d:\d\d:\d\d)\.(\d{1,6})")
_NOTABLE: Final[Mapping[str, re.Pattern[str]]] = {
    "rabbitmq": re.compile(
        r"\[(?:warning|error|critical|alert|notice)\]|partition|autoheal|pause|rabbit on node .* (?:up|down)"
        r"|leader|net_tick|Mnesia|inconsistent_database|Restarting|Stopping|Synchronis",
        re.IGNORECASE,
    ),
    "redis": re.compile(
        r"\+(?:odown|switch-master|failover|elected-leader|promoted-slave|convert-to-slave|new-epoch)|[*#] MASTER MODE"
        r"|REPLICAOF|Full resync|Discarding|Before turning into a replica|Connection with (?:master|replica) lost"
    ),
    "zookeeper": re.compile(r"LEADING|FOLLOWING|LOOKING|Exception when (?:following|observing)|Shutting down|ERROR"),
    "etcd": re.compile(r"warn|error|elected|became|lost leader|leader changed|stepped down", re.IGNORECASE),
}
_STRONG: Final[Mapping[str, re.Pattern[str]]] = {
    "rabbitmq": re.compile(
        r"partition|autoheal|minority|inconsistent_database|rabbit on node .* (?:up|down)|node .* (?:up|down):"
        r"|already_started|Cannot declare quorum queue",
        re.IGNORECASE,
    ),
    "redis": re.compile(r"\+(?:odown|switch-master|promoted-slave|convert-to-slave)|MASTER MODE|Full resync from"),
    "zookeeper": re.compile(r"LEADING|FOLLOWING|LOOKING"),
    "etcd": re.compile(r"elected|became leader|lost leader", re.IGNORECASE),
}
"""Notable lines that name a node that was lost, a new leader, or a queue that could not be made: if a log has such
lines, only they are shown.
"""

_EXPECTED: Final[Mapping[str, re.Pattern[str]]] = {
    "rabbitmq": re.compile(
        r"Channel error on connection|resource_locked|precondition_failed|channel exception not_found", re.IGNORECASE
    ),
}
"""Lines that look notable, and say only that a client was refused as it may be."""

_VERSION: Final[Mapping[str, re.Pattern[str]]] = {
    "rabbitmq": re.compile(r"Starting RabbitMQ ([0-9][0-9.]*)"),
    "redis": re.compile(r"Redis version=([0-9.]+)"),
    "zookeeper": re.compile(r"zookeeper\.version=([0-9.]+)"),
    "etcd": re.compile(r"(?:etcd Version: |\"etcd-version\":\")([0-9.]+)"),
}
_ADDRESS: Final = re.compile(r"\b(\d{1,3}(?:\.\d{1,3}){3})(:\d+)?\b")
_PID: Final = re.compile(r"<\d+(?:\.\d+){1,2}>")
_CLIENT: Final = re.compile(r" \(user request from '.*")
"""Behind what Redis logs about a command: all that it knows of the client's connection."""


class Line(msgspec.Struct, frozen=True):
    """A line of a node's log.

    Attributes:
        node: which node wrote it.
        at_s: seconds since the run's clock began.
        text: without the time, addresses, process ids and details of clients' connections.
    """

    node: str
    at_s: float
    text: str


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a log, of which damaged bytes are replaced; none where there is no log."""
    try:
        with path.open("rb") as file:
            yield from file.read(_BYTES).decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return


def version_in(system: str, lines: Iterable[str]) -> str | None:
    """The version of a system as its log names it first; None if it does not."""
    pattern = _VERSION.get(system)
    if pattern is None:
        return None
    return next((found.group(1) for line in lines if (found := pattern.search(line)) is not None), None)


def moment_of(line: str) -> tuple[float, str] | None:
    """When a line was logged, in seconds since 1970 (logs are in UTC), and the rest of it; None if it does not say."""
    for pattern, form in ((_ISO, "%Y-%m-%d %H:%M:%S"), (_REDIS, "%d %b %Y %H:%M:%S")):
        found = pattern.search(line[:80])
        if found is not None:
            day, time, part = found.groups()
            try:
                whole = datetime.strptime(f"{day} {time}", form).replace(tzinfo=UTC).timestamp()
            except ValueError:
                continue
            return whole + float(f"0.{part or 0}"), line[found.end() :]
    return None


def plain(text: str, nodes: Mapping[str, str]) -> str:
    """A line without addresses, numbers of processes and details of clients' connections.

    Args:
        text: the line.
        nodes: names of nodes by their addresses; other addresses are replaced by "(address)".
    """
    text = _ADDRESS.sub(lambda found: nodes.get(found.group(1), "(address)"), text)
    text = _CLIENT.sub("", " ".join(_PID.sub("", text).split()))
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def beside(
    system: str,
    logs: Mapping[str, Iterable[str]],
    *,
    began_s: float,
    from_s: float,
    until_s: float,
    addresses: Mapping[str, str],
) -> list[Line]:
    """What nodes logged between a fault and a violation, by time: the first `KEPT` of the lines that matter.

    Args:
        system: whose logs they are.
        logs: lines by node.
        began_s: when the clock of the run was 0, in seconds since 1970.
        from_s, until_s: of the run's clock; nothing later is shown.
        addresses: names of nodes by their addresses.
    """
    pattern, expected = _NOTABLE.get(system), _EXPECTED.get(system)
    found: list[Line] = []
    for node, lines in logs.items():
        for line in lines:
            moment = moment_of(line)
            if moment is None or not (from_s <= moment[0] - began_s <= until_s):
                continue
            if (pattern is None or pattern.search(line)) and not (expected is not None and expected.search(line)):
                text = plain(moment[1], addresses)
                if not any(each.node == node and each.text == text for each in found[-3:]):
                    found.append(Line(node, round(moment[0] - began_s, 3), text))
    strong = _STRONG.get(system)
    best = [line for line in found if strong is not None and strong.search(line.text)]
    return sorted(best or found, key=lambda line: line.at_s)[:KEPT]


def addresses(logs: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """The names of nodes by their addresses, which deployments give out in the order of the nodes.

    Args:
        logs: lines by node, in that order.

    Returns:
        Nothing if the logs name more or fewer addresses in the nodes' network than there are nodes.
    """
    seen = {found.group(1) for lines in logs.values() for line in lines for found in _ADDRESS.finditer(line)}
    of_nodes = sorted((each for each in seen if each.startswith("10.")), key=lambda each: int(each.rpartition(".")[2]))
    return dict(zip(of_nodes, logs, strict=True)) if len(of_nodes) == len(tuple(logs)) else {}
