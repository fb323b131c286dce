"""A test that a program makes is recorded, judged and kept as one that the command line composes."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from splitbrain import Test, run_and_judge
from splitbrain.checkers.verdict import CheckerSpec, Outcome
from splitbrain.harness.backends.sim import SimBackend
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.judges import with_judges
from splitbrain.harness.campaigns.replaying import original_of
from splitbrain.harness.campaigns.shrinking import failure_of
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.nemesis import catalogue as nemeses
from splitbrain.results.errors import UsageError
from splitbrain.results.report.counterexample import COUNTEREXAMPLE
from splitbrain.workloads import catalogue as workloads

NODES = ("n1", "n2", "n3")
SECONDS = 12.0


def made(bugs: tuple[str, ...] = (), **changes: object) -> Test:
    """A test as a program makes it: a workload that names one checker, and no options."""
    workload = workloads.build("register", nodes=NODES, concurrency=6, rate=100.0, time_limit_s=SECONDS)
    judged = [spec for spec in workload.checkers if spec.name == "linearizable"]
    test = Test(
        name="own",
        seed=3,
        nodes=NODES,
        system=Metadata(),
        workload=dataclasses.replace(workload, checkers=tuple(judged)),
        nemesis=nemeses.build(["partition"], interval_s=3, time_limit_s=SECONDS),
        bugs=bugs,
        concurrency=6,
        time_limit_s=SECONDS,
    )
    return dataclasses.replace(test, **changes)  # pyright: ignore[reportArgumentType]


def options() -> RunOptions:
    """The same test for the command line."""
    return RunOptions.of(
        workload="register",
        nemesis="partition",
        system="metadata",
        backend="sim",
        bug="",
        nodes="3",
        concurrency="2n",
        rate=100.0,
        time_limit=SECONDS,
        interval=3.0,
        op_timeout=2.0,
        recovery=20.0,
        seed=3,
    )


def test_it_has_the_judges_the_verdicts_and_the_files_of_a_composed_one(tmp_path: Path) -> None:
    own = run_and_judge(made(), SimBackend(), tmp_path / "own")
    composed = run_and_judge(compose(options()), SimBackend(), tmp_path / "composed")
    assert {each.checker: each.valid for each in own.verdicts} == {
        each.checker: each.valid for each in composed.verdicts
    }
    assert own.outcome is composed.outcome
    assert own.run.history().equals(composed.run.history())
    files = [{str(path.relative_to(found.run.path)) for path in found.run.path.rglob("*")} for found in (own, composed)]
    assert files[0] == files[1]
    assert {"plan.json", "figures.json", "splitbrain.log", "telemetry.parquet", "report.html"} <= files[0]


def test_a_violation_is_found_and_drawn(tmp_path: Path) -> None:
    found = run_and_judge(made(("M23",), seed=1), SimBackend(), tmp_path)
    assert found.outcome is Outcome.VIOLATION
    assert (found.run.path / COUNTEREXAMPLE).exists()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("named", [(), (CheckerSpec("stats"),)])
def test_a_workload_without_a_checker_of_its_ops_is_no_pass(tmp_path: Path, named: tuple[CheckerSpec, ...]) -> None:
    workload = dataclasses.replace(made().workload, checkers=named)
    found = run_and_judge(made(workload=workload), SimBackend(), tmp_path)
    assert found.outcome is Outcome.INCONCLUSIVE
    [coverage] = [verdict for verdict in found.verdicts if verdict.checker == "coverage"]
    assert [reason.code for reason in coverage.inconclusive][:1] == ["not-judged"]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (CheckerSpec("linearizable", {"model": "regster"}), "no model 'regster'. Did you mean 'register'"),
        (CheckerSpec("linearizable", {"model": "nowhere:Model"}), "model 'nowhere:Model' cannot be imported"),
        (CheckerSpec("linearizable", {"model": "register"}), "model 'register' does not know 'cas' of this workload"),
        (CheckerSpec("linearisable", {"model": "register"}), "no checker 'linearisable'. Did you mean 'linearizable'"),
        (CheckerSpec("nowhere:Checker"), "checker 'nowhere:Checker' cannot be imported"),
    ],
)
def test_a_checker_or_a_model_that_cannot_judge_the_workload_is_refused_before_the_run(
    tmp_path: Path, spec: CheckerSpec, says: str
) -> None:
    workload = dataclasses.replace(made().workload, checkers=(spec,))
    with pytest.raises(UsageError, match=re.escape(says)):
        run_and_judge(made(workload=workload), SimBackend(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_writes_that_return_nothing_need_no_checker_of_their_values(tmp_path: Path) -> None:
    workload = workloads.build("records", nodes=NODES, concurrency=6)
    found = run_and_judge(made(workload=workload), SimBackend(), tmp_path)
    assert found.outcome is Outcome.PASS


def test_what_the_workload_says_of_a_checker_stays() -> None:
    own = CheckerSpec("quorum-progress", {"nodes": list(NODES), "recovery_bound_s": 99.0})
    workload = made().workload
    test = made(workload=dataclasses.replace(workload, checkers=(*workload.checkers, own, CheckerSpec("stats"))))
    judged = with_judges(test, SimBackend()).workload.checkers
    assert [spec for spec in judged if spec.name == "quorum-progress"] == [own]
    assert len({spec.name for spec in judged}) == len(judged)
    assert with_judges(with_judges(test, SimBackend()), SimBackend()).workload.checkers == judged


def test_a_share_of_seconds_is_demanded_only_of_systems_with_elections() -> None:
    leaderless = Metadata()
    leaderless.capabilities = dataclasses.replace(leaderless.capabilities, elections=None)
    with pytest.raises(UsageError, match="availability"):
        with_judges(made(system=leaderless, availability=0.9), SimBackend())
    specs = with_judges(made(availability=0.9), SimBackend()).workload.checkers
    assert [spec.options["availability"] for spec in specs if spec.name == "quorum-progress"] == [0.9]


def test_it_can_be_repeated_by_its_program_only_and_says_so(tmp_path: Path) -> None:
    found = run_and_judge(made(("M23",), seed=1), SimBackend(), tmp_path)
    for again in (lambda: original_of("latest", tmp_path, None), lambda: failure_of("latest", tmp_path)):
        with pytest.raises(UsageError, match="made by a program that uses splitbrain as a library") as refused:
            again()
        assert str(found.run.name) in str(refused.value)
