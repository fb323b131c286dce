"""The telemetry of real runs on etcd: every node's, one leader per term, and every rule that needs it judged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from splitbrain.results.rundir import RunDir
from tests.cli.support import comes_out, only_run, splitbrain

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.usefixtures("etcd_program")]

NODES = ("n1", "n2", "n3")


def told(folder: Path, *options: str) -> tuple[list[dict[str, Any]], Mapping[str, Any]]:
    """The rows of a run that passes, and the results of the rules of quorum progress."""
    words = ["run", "--json", "--system", "etcd", "--nodes", "3", "--engine", "inline", *options]
    found, store = comes_out("pass", lambda store: splitbrain(*words, "--store", str(store), timeout_s=240), folder)
    [quorum] = [verdict for verdict in found["verdicts"] if verdict["checker"] == "quorum-progress"]
    return RunDir(only_run(store)).telemetry().to_pylist(), quorum["figures"]["rules"]


def leaders(rows: list[dict[str, Any]]) -> dict[int, set[str]]:
    """By term, who was seen to lead."""
    found: dict[int, set[str]] = {}
    for row in rows:
        if row["role"] == "leader":
            found.setdefault(row["term"], set()).add(row["node"])
    return found


def test_under_kills_and_pauses_of_leaders_every_node_is_told_of_and_no_term_has_two(tmp_path: Path) -> None:
    faults = ["--nemesis", "kill,pause", "--interval", "3", "--time-limit", "30", "--seed", "4"]
    rows, rules = told(tmp_path, "--workload", "register", *faults)
    found = leaders(rows)
    assert len(found) >= 3
    assert all(len(nodes) == 1 for nodes in found.values())
    assert {rule: rules[rule] for rule in ("Q5", "Q6", "Q7", "Q10")} == dict.fromkeys(("Q5", "Q6", "Q7", "Q10"), "held")
    for node in NODES:
        mine = [row for row in rows if row["node"] == node]
        assert mine[0]["event"] == "start"
        assert [row["life"] for row in mine] == sorted(row["life"] for row in mine)
        assert {tuple(row["voters"]) for row in mine} == {NODES}
        # From before the first op to behind the last one: the end of the run is told as well.
        assert len(mine) > 30
    assert max(row["life"] for row in rows) > 1, "no leader was ever killed"
    ends = {max((row["time"], row["applied_index"]) for row in rows if row["node"] == node)[1] for node in NODES}
    assert len(ends) == 1


def test_voters_are_those_that_each_node_holds_while_members_leave_and_join(tmp_path: Path) -> None:
    rows, rules = told(tmp_path, "--nemesis", "membership", "--interval", "3", "--time-limit", "20", "--seed", "2")
    voters = {tuple(row["voters"]) for row in rows}
    assert NODES in voters
    assert any(len(held) == 2 for held in voters)
    assert {rules[rule] for rule in ("Q5", "Q6", "Q10")} == {"held"}
