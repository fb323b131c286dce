"""What the folder of a run says of its test: how to repeat it, and where its nodes' telemetry is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from splitbrain.harness import validate
from splitbrain.harness.campaigns.compose import command_line
from splitbrain.harness.campaigns.planned import options_of, with_revision
from splitbrain.harness.campaigns.polling import FILE
from splitbrain.results.origin import tools

if TYPE_CHECKING:
    from pathlib import Path

    from splitbrain.harness.contract.deployments import Deployment
    from splitbrain.harness.contract.test import Test
    from splitbrain.results.loaded import LoadedRun
    from splitbrain.results.rundir import RunDir


def document_of(test: Test, store: Path, notes: Mapping[str, Any]) -> dict[str, Any]:
    """What `test.json` says of the test, beside what the store adds.

    Args:
        test: the test.
        store: where its run goes.
        notes: what else is to be said, or otherwise.
    """
    return {
        "options": dict(test.options),
        "command": command_line(options_of(test.options, "the test"), store) if test.options else None,
        "nodes": list(test.nodes),
        "bugs": list(test.bugs),
        **({"settings": dict(test.settings)} if test.settings else {}),
        "left_out": list(test.nemesis.left_out),
        "checkers": [msgspec.to_builtins(spec) for spec in test.workload.checkers],
        **notes,
    }


def document_of_deployed(test: Test, store: Path, notes: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a test on real nodes: with `tools`, versions of programs that are asked for them."""
    return {**document_of(test, store, notes), "tools": tools()}


def keep_surroundings(run: RunDir, deployment: Deployment) -> None:
    """Store what the nodes run in, as test.json's `image` (tag and id) and `links`; what is not there is left out."""
    used, links = deployment.surroundings.image, deployment.surroundings.links
    known: dict[str, Any] = {}
    if used is not None:
        known["image"] = {"tag": used.tag, "id": used.id}
    if links is not None:
        known["links"] = links
    if known:
        run.amend_test(**known)


def telemetry_of(test: Test, run: RunDir) -> dict[str, str]:
    """For each node that has any, where its raw telemetry is, relative to the run's folder."""
    found = {node: _telemetry(test, run.path / "nodes" / node) for node in test.nodes}
    return {node: str(path.relative_to(run.path)) for node, path in found.items() if path is not None}


def _telemetry(test: Test, node_dir: Path) -> Path | None:
    """The file that a node writes, or that is written for it."""
    own = validate.system(test.system).telemetry(test, node_dir)
    return node_dir / FILE if own is None and test.system.capabilities.observation is not None else own


def keep_plan(run: LoadedRun, test: Test) -> None:
    """Store what was planned to happen, apart from what happened: ops, and faults as they were asked for."""
    from splitbrain.harness.running.plan import Expectation, encode, plan_of
    from splitbrain.results.arrow import from_table, history_hash
    from splitbrain.results.history import HARNESS

    table, document = run.history, run.document
    versions = with_revision(document["versions"], document.get("git"))
    history = from_table(table, str(run.folder.history_path))
    plan = plan_of(history, test, versions=versions)
    simulation: Mapping[str, Any] | None = document.get("simulation")
    interrupted = any(op.process == HARNESS and op.f == "interrupted" for op in history)
    if simulation is not None and not interrupted:
        expect = Expectation(history=history_hash(table), fingerprint=simulation["fingerprint"])
        plan = msgspec.structs.replace(plan.expecting(expect), of_seed=plan.digest())
    run.folder.write_plan(encode(plan))
