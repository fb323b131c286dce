"""Our machine beside RabbitMQ's own: `python -m tests.cluster.queues.beside_rabbitmq FIRST LAST IMAGE`.

Random sequences of steps, one for each seed from FIRST up to LAST, are carried out by `rabbit_fifo` of RabbitMQ
4.0.5, in a container of an image that has it (with `erl` and `erlc`), and by ours. All that a case can say of a step
must agree: reply, deliveries, dead letters, messages to processes, activity, monitors, state. A sequence ends at the
first step that differs; if it does so for one of the reasons of docs/queues.md it is counted by that, else it is
printed, and the command ends with 1.
"""

# JSON has no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

from tests.cluster.queues.agreement import disagreement
from tests.cluster.queues.cases import Runner
from tests.cluster.queues.sequences import sequence

DRIVER: Final = Path(__file__).with_name("rabbit_fifo_driver.erl")
COMMAND: Final = (
    "cd /work && erlc rabbit_fifo_driver.erl && "
    'paths=$(find / -xdev -path "*/plugins/*/ebin" -type d 2>/dev/null | sed "s/^/-pa /") && '
    'erl +S 1 -noshell -pa . $paths -eval "rabbit_fifo_driver:main([\\"in.json\\", \\"out.json\\"])."'
)


def observed(cases: list[dict[str, Any]], image: str) -> list[list[dict[str, Any]]]:
    """What RabbitMQ's machine gives at each step of each case.

    Raises:
        subprocess.CalledProcessError: the container failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / DRIVER.name).write_text(DRIVER.read_text())
        (place / "in.json").write_text(json.dumps(cases))
        command = ["docker", "run", "--rm", "--network", "none", "-v", f"{folder}:/work", "--entrypoint", "sh", image]
        subprocess.run([*command, "-c", COMMAND], check=True)
        return json.loads((place / "out.json").read_text())


def known_difference(
    step: dict[str, Any], before: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]
) -> str | None:
    """Which defect of 4.0.5 a step shows, in a few words; None if it shows none that we know.

    Args:
        step: the first one that differs.
        before: the state before it, which was the same.
        ours: what ours gives.
        theirs: what RabbitMQ's gives.
    """
    mine, other = ours["state"], theirs["state"]
    for tag, consumer in other["consumers"].items():
        if consumer["status"] == "cancelled" and not consumer["checked_out"] and tag not in mine["consumers"]:
            return "a cancelled consumer with credit is kept for ever"
    if step["op"] == "requeue" and theirs["sends"] and not ours["sends"]:
        return "a requeued message counts twice for a moment, and publishers are told to go on"
    if step["op"] == "down" and set(other["consumers"]) < set(mine["consumers"]):
        gone = set(mine["consumers"]) - set(other["consumers"])
        if all(mine["consumers"][tag]["status"] == "suspected_down" for tag in gone):
            return "a suspected consumer for once goes at once if its last message is a dead letter"
    if step["op"] == "dequeue" and mine["ready"] == other["ready"] and len(theirs["dead_letters"]) > 1:
        return "messages that expired before a dequeue are dead letters in the reverse order"
    return _of_single_active(step, before, mine, other) if "active" in other else None


def _of_single_active(
    step: dict[str, Any], before: dict[str, Any], mine: dict[str, Any], other: dict[str, Any]
) -> str | None:
    if other["active"] is None and any(each["status"] == "up" for each in other["waiting_consumers"].values()):
        return "no consumer becomes active though one waits"
    if len(set(other["waiting"])) < len(other["waiting"]):
        return "a consumer waits twice"
    if step["op"] == "attach" and before.get("consumers", {}).get(step["consumer"], {}).get("status") == "cancelled":
        return "a consumer that takes over loses the messages that it had before it was cancelled"
    if any(set(state["consumers"]) & set(state["waiting"]) for state in (before, mine, other) if state):
        return "a consumer was attached again while it quiesced, or after it was cancelled"
    if step["op"] == "down" and set(other["waiting"]) < set(mine["waiting"]):
        return "a consumer that is suspected is lost"
    if step["op"] == "down" and set(mine["waiting"]) < set(other["waiting"]):
        return "a consumer that is gone waits"
    if (
        step["op"] in ("cancel", "remove")
        and [tag for tag in other["waiting"] if tag != step["consumer"]] == mine["waiting"]
    ):
        return "a consumer that is cancelled waits"
    if mine["waiting_consumers"] != other["waiting_consumers"] and step["op"] in (
        "settle",
        "return",
        "discard",
        "modify",
    ):
        return "a consumer that was attached again while it quiesced is as it was before"
    return None


def compare(case: dict[str, Any], observations: list[dict[str, Any]]) -> tuple[int, str | None, str | None]:
    """How many steps agree, the reason if the next one differs for a known one, and else what differs."""
    runner, before = Runner(case["config"], case["consumers"]), dict[str, Any]()
    for number, (step, theirs) in enumerate(zip(case["steps"], observations, strict=False)):
        if "crash" in theirs:
            return number, f"it crashes: {theirs['crash']}", None
        ours = runner.step(step)
        problem = disagreement(theirs, ours)
        if problem is not None:
            known = known_difference(step, before, ours, theirs)
            return number, known, None if known else f"{case['id']}, step {number} {json.dumps(step)}: {problem}"
        before = ours["state"]
    return len(observations), None, None


def main(first: int, last: int, image: str) -> int:
    """Print how many steps agree, how many sequences end for which reason, and what is not explained."""
    cases = [sequence(seed) for seed in range(first, last)]
    reasons: Counter[str] = Counter()
    agreed, whole, unexplained = 0, 0, list[str]()
    for case, observations in zip(cases, observed(cases, image), strict=True):
        steps, reason, problem = compare(case, observations)
        agreed += steps
        whole += reason is None and problem is None
        reasons.update([reason] if reason else [])
        unexplained.extend([problem] if problem else [])
    print(f"{agreed:,} steps agree; {whole:,} of {len(cases):,} sequences to their ends.")
    for reason, count in reasons.most_common():
        print(f"{count:>6} end since in RabbitMQ {reason}")
    for problem in unexplained:
        print(f"NOT EXPLAINED {problem}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python -m tests.cluster.queues.beside_rabbitmq FIRST LAST IMAGE")
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
