"""Shrinking a failing plan with simulated runs on all cores: from what failed to the smallest plan, stored as a run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from splitbrain.checkers import kernels
from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.compose import backend_of, compose
from splitbrain.harness.campaigns.followable import checked
from splitbrain.harness.campaigns.planned import (
    LIMIT_S,
    Guilt,
    Played,
    Task,
    options_of,
    play,
    repeated,
    simulated,
    test_of,
    with_revision,
)
from splitbrain.harness.campaigns.warm import warm_up
from splitbrain.harness.campaigns.workers import Report, Workers
from splitbrain.harness.contract.listed import names
from splitbrain.harness.running.plan import Plan, encode, figures, kinds, load, plan_of
from splitbrain.harness.simulation.worlds import pinned
from splitbrain.nemesis import catalogue
from splitbrain.nemesis.reductions import with_nodes
from splitbrain.nemesis.shrink import Shrunk, Step, shrink
from splitbrain.results.arrow import from_table
from splitbrain.results.errors import UsageError
from splitbrain.results.origin import git_revision, versions
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store

if TYPE_CHECKING:
    from splitbrain.harness.campaigns.display import Display
    from splitbrain.harness.campaigns.judging import Conclusion

SEEDS: Final = 20
"""The number of seeds that are tried with a plan: other delays, the same ops and faults. One of them must fail."""

FEW_OPS: Final = 10
"""The number of ops that a person can follow: with more the search continues with other delays."""

FEW_NODES: Final = (3, 5)
"""The numbers of nodes that are tried first: the fewest that bear a failure, and the next."""

CHOICES: Final = 8
"""How many choices of nodes are tried for each."""

_TICK_S: Final = 0.2


class Failure(msgspec.Struct, frozen=True):
    """A plan that is said to fail.

    Attributes:
        plan: the plan, with options for simulated nodes.
        guilt: the violations, any of which is accepted; empty if unknown.
        source: where it is from, for errors.
    """

    plan: Plan
    guilt: tuple[Guilt, ...]
    source: str


class Smallest(msgspec.Struct, frozen=True, kw_only=True):
    """What shrinking came to.

    Attributes:
        before: the plan as it was, with the seed with which it fails.
        after: the smallest plan that fails in the same way, with what a run of it comes to.
        minimal: whether the search came to its end.
        tried: how many simulated runs it took.
        sentence: the violation, in words.
    """

    before: Plan
    after: Plan
    minimal: bool
    tried: int
    sentence: str

    @property
    def smaller(self) -> bool:
        """Whether anything was left out, or made shorter."""
        return figures(self.after) != figures(self.before)


# --- what to shrink ---------------------------------------------------------------------------------------------------


def failure_of(reference: str, store: Path) -> Failure:
    """The plan that a person means: a plan file, or a run of the store.

    Raises:
        UsageError: there is no such run or file, or the run did not fail.
    """
    if Path(reference).is_file():
        plan = load(reference)
        expect = plan.known()
        known = expect is not None and expect.checker is not None
        guilt = (Guilt(expect.checker or "", expect.anomalies, expect.key),) if expect is not None and known else ()
        return Failure(_followable(for_simulation(plan, reference)), guilt, reference)
    run = Store(store).find(reference)
    guilt = _guilt_of(run)
    plan = for_simulation(plan_of_run(run), str(run.path))
    if guilt:
        plan = msgspec.structs.replace(
            plan, expect=Played(number=0, outcome=Outcome.VIOLATION, guilt=guilt).expectation()
        )
    return Failure(_followable(plan), guilt, f"run {run.name}")


def _followable(plan: Plan) -> Plan:
    """The plan with whole requests, as what makes it smaller reads them.

    Raises:
        UsageError: it cannot be followed.
    """
    return checked(plan, compose(options_of(plan.options, "plan")))


def plan_of_run(run: RunDir) -> Plan:
    """The plan of a stored run: as stored, else from its history.

    Raises:
        SplitbrainError: the run cannot be read.
    """
    run.verify(run.plan_path.name)
    if run.plan_path.exists():
        return load(run.plan_path)
    document = repeated(run)
    test = compose(options_of(document.get("options") or {}, str(run.path)))
    return plan_of(from_table(run.history(), str(run.history_path)), test, versions=document.get("versions") or {})


def for_simulation(plan: Plan, source: str) -> Plan:
    """The plan for simulated nodes, wherever it was recorded. A drawn world stays what it is with other seeds."""
    options = simulated(options_of(plan.options, source))
    assert options.seed is not None, "options_of refuses a plan without one"
    options = msgspec.structs.replace(options, world=pinned(options.world, options.seed))
    return msgspec.structs.replace(plan, options=msgspec.to_builtins(options))


def _guilt_of(run: RunDir) -> tuple[Guilt, ...]:
    """What a run was found guilty of; nothing if it was not judged yet.

    Raises:
        UsageError: it was judged, and no checker found a violation.
    """
    judged = run.read_verdicts()
    if judged is None:
        return ()
    guilty = [verdict for verdict in judged.verdicts if verdict["valid"] is False]
    if not guilty:
        raise UsageError(f"run {run.name} did not fail ({judged.outcome}): there is nothing to shrink.")
    return tuple(
        Guilt(
            verdict["checker"],
            tuple(verdict.get("anomalies", ())),
            (verdict.get("evidence", {}).get("failing_keys") or [verdict.get("key")])[0],
        )
        for verdict in guilty
    )


# --- the search -------------------------------------------------------------------------------------------------------


def smallest(
    failure: Failure,
    *,
    jobs: int,
    budget_s: float,
    go_on: Callable[[], bool],
    show: Callable[[Step], None],
) -> Smallest:
    """The smallest plan that fails as `failure` does.

    Args:
        failure: where to begin.
        jobs: worker processes; the result does not depend on their number.
        budget_s: in CPU seconds of each worker; then the smallest plan so far is taken.
        go_on: returns False to end the search.
        show: called with every step.

    Raises:
        UsageError: no simulated run of the plan fails, with any of the delays tried.
    """
    with Workers(play, jobs, prepare=warm_up, limit_s=LIMIT_S, clock=kernels.cpu_s) as workers:
        pool = Pool(workers)
        show(Step(failure.plan, 0, "first run"))
        before, wanted, tries = _beginning(failure, pool)
        ends_s = workers.cpu_s + budget_s * jobs

        def in_time() -> bool:
            return go_on() and workers.cpu_s < ends_s

        fewer, wanted, tried = _on_fewer_nodes(before, wanted, pool, in_time)

        def search(plan: Plan, evident_ns: int | None = None) -> Shrunk:
            return shrink(
                plan,
                lambda candidates: pool.failing(candidates, wanted),
                evident_ns=evident_ns,
                progress=show,
                go_on=in_time,
            )

        expected = Played(number=0, outcome=Outcome.VIOLATION, guilt=(wanted,)).expectation()
        found = search(msgspec.structs.replace(fewer, expect=expected), wanted.evident_ns)
        found = _with_other_delays(found, search, lambda plan: pool.failing(iter([plan]), wanted) is not None)
        return _finished(before, found, wanted, tries + tried, pool)


def _with_other_delays(found: Shrunk, search: Callable[[Plan], Shrunk], fails: Callable[[Plan], bool]) -> Shrunk:
    """If a search stops with many ops, it continues with the delays of later seeds, if the plan still fails with them.

    Every op that is left out shifts the delays of what follows: a plan can be stuck because of that alone.
    """
    first, tried = found.plan.options["seed"], found.tried
    for seed in range(first + 1, first + SEEDS):
        if not found.minimal or _ops(found.plan) <= FEW_OPS:
            break
        plan = msgspec.structs.replace(found.plan, options={**found.plan.options, "seed": seed})
        tried += 1
        if fails(plan):
            again = search(plan)
            tried += again.tried
            found = again if _ops(again.plan) < _ops(found.plan) else found
    return Shrunk(found.plan, found.minimal, tried)


def _on_fewer_nodes(plan: Plan, wanted: Guilt, pool: Pool, go_on: Callable[[], bool]) -> tuple[Plan, Guilt, int]:
    """The plan on as few nodes as `FEW_NODES` says, with the delays of any of a few seeds, if it fails so.

    A node that is left out changes who leads and when: with the same delays the plan seldom fails without it, and the
    more was left out before, the more seldom. A run of few nodes takes less time, and so does the whole search.

    Returns:
        the plan, what is wrong with it, and how many candidates were tried.
    """
    tried = 0
    for count in FEW_NODES:
        if count >= len(plan.nodes):
            continue
        candidates = _on_nodes(plan, count)
        in_time = itertools.takewhile(lambda _: go_on(), candidates)
        found = pool.first(in_time, lambda played: played.found(wanted), wanted.checker)
        if found is not None:
            place, played = found
            return candidates[place], played.as_sought(wanted), tried + place + 1
        tried += len(candidates)
    return plan, wanted, tried


def _on_nodes(plan: Plan, count: int) -> list[Plan]:
    """The plan on so many of its nodes, neighbours in its list, each time others and with other delays."""
    seed, nodes = plan.options["seed"], [*plan.nodes, *plan.nodes]
    found: list[Plan] = []
    for shift in range(CHOICES):
        first = shift % len(plan.nodes)
        fewer = with_nodes(plan, [node for node in plan.nodes if node in nodes[first : first + count]])
        if fewer is not None:
            found.append(msgspec.structs.replace(fewer, options={**plan.options, "seed": seed + shift}))
    return found


def _ops(plan: Plan) -> int:
    return len(plan.ops) + len(plan.final_ops)


def _beginning(failure: Failure, pool: Pool) -> tuple[Plan, Guilt, int]:
    """The plan with the first seed with which it fails, what is wrong then, and how many seeds that took.

    Raises:
        UsageError: it fails with none of them.
    """
    seed = options_of(failure.plan.options, failure.source).seed
    seeded = [
        msgspec.structs.replace(failure.plan, options={**failure.plan.options, "seed": seed + i}) for i in range(SEEDS)
    ]

    def matches(played: Played) -> Guilt | None:
        wanted = failure.guilt or played.guilt
        return next((each for each in wanted if played.found(each)), None)

    found = pool.first(iter(seeded), lambda played: matches(played) is not None)
    if found is None:
        sought = " or ".join(f"{each.checker} finding {', '.join(each.anomalies)}" for each in failure.guilt)
        why = f" ({pool.problem})" if pool.problem is not None else ""
        raise UsageError(
            f"{failure.source}: simulated with its ops and faults, with seeds {seed} to {seed + SEEDS - 1}, none ends "
            f"with {sought or 'a violation'}: there is nothing to shrink{why}."
        )
    place, played = found
    guilt = matches(played)
    assert guilt is not None, "it was chosen for that"
    return seeded[place], played.as_sought(guilt), place + 1


def _finished(before: Plan, found: Shrunk, wanted: Guilt, tries: int, pool: Pool) -> Smallest:
    """The result with options that follow what was left out, if it fails with those as well, and what it comes to."""
    plans = [_with_options_that_fit(found.plan), found.plan]
    chosen = pool.first(iter(plans), lambda played: played.found(wanted))
    if chosen is None:
        raise UsageError(f"the smallest plan failed once and not again{f' ({pool.problem})' if pool.problem else ''}.")
    place, played = chosen
    return Smallest(
        before=before,
        after=msgspec.structs.replace(
            plans[place].expecting(played.expectation()),
            versions=with_revision(versions(before.options), git_revision()),
        ),
        minimal=found.minimal,
        tried=found.tried + tries + place + 1,
        sentence=next(iter(played.sentences), ""),
    )


def _with_options_that_fit(plan: Plan) -> Plan:
    left = kinds(plan.faults)
    listed = names("--nemesis", str(plan.options["nemesis"]))
    nemeses = [name for name in listed if any(kind in left for kind in catalogue.kinds([name]))]
    options = {
        **plan.options,
        "nemesis": ",".join(nemeses) or "none",
        "nodes": ",".join(plan.nodes),
        "concurrency": str(len(plan.placement)),
        "time_limit": plan.end_ns / 1e9,
    }
    return msgspec.structs.replace(plan, options=options)


class Pool:
    """Plans on worker processes, in order.

    Attributes:
        problem: the last error of the harness in a run, None if there was none.
    """

    def __init__(self, workers: Workers[Task, Played]) -> None:
        self._workers = workers
        self._given = 0
        self.problem: str | None = None

    def failing(self, candidates: Iterator[Plan], wanted: Guilt) -> Plan | None:
        """The first candidate that fails so (`splitbrain.nemesis.shrink.Judge`)."""
        asked: list[Plan] = []

        def noted() -> Iterator[Plan]:
            for candidate in candidates:
                asked.append(candidate)
                yield candidate

        found = self.first(noted(), lambda played: played.found(wanted), wanted.checker)
        return None if found is None else asked[found[0]]

    def first(
        self, candidates: Iterator[Plan], accept: Callable[[Played], bool], checker: str | None = None
    ) -> tuple[int, Played] | None:
        """The first of the candidates, in their order, whose run is accepted: its place and its run."""
        base, count, answered, accepted = self._given, 0, dict[int, Played | None](), dict[int, Played]()
        more = True
        while True:
            while more and not accepted and self._workers.free:
                candidate = next(candidates, None)
                more = candidate is not None
                if candidate is not None:
                    self._workers.give(_task(base + count, candidate, checker))
                    count += 1
                    self._given = base + count
            earliest = min(accepted, default=count)
            if all(place in answered for place in range(earliest)) and (accepted or not more):
                return (earliest, accepted[earliest]) if accepted else None
            for report in self._workers.wait(_TICK_S):
                place, played = report.task.number - base, self._answer(report)
                if place >= 0:  # others are left from a search that was decided without them
                    answered[place] = played
                    if played is not None and accept(played):
                        accepted[place] = played

    def _answer(self, report: Report[Task, Played]) -> Played | None:
        problem = report.problem or (report.answer.harness_error if report.answer is not None else None)
        self.problem = problem or self.problem
        return report.answer


def _task(number: int, plan: Plan, checker: str | None) -> Task:
    return Task(number, options_of(plan.options, "plan"), encode(plan), checker)


# --- the stored run ---------------------------------------------------------------------------------------------------


def store_run(plan: Plan, store: Path, display: Display, derived_from: str) -> Conclusion:
    """Run a plan on the backend of its options, keep it in the store with its plan, and judge it.

    Args:
        plan: what is to happen.
        store: where the run goes.
        display: shows how it goes.
        derived_from: of which run, or which file, the plan comes.

    Raises:
        SplitbrainError: it could not be run.
    """
    from splitbrain.harness.campaigns.judging import judge_inline
    from splitbrain.harness.campaigns.record import record

    options, notes = options_of(plan.options, "plan"), {"derived_from": derived_from}
    run, summary = record(test_of(options, plan), backend_of(options), store, display, notes=notes)
    try:
        run.write_plan(encode(plan))
        run.amend_test(scripted=True)
        with display.during("judging") as progress:
            return judge_inline(run, None if summary.failure is None else str(summary.failure), progress)
    finally:
        run.release()


def difference(plan: Plan, conclusion: Conclusion) -> str | None:
    """In what a stored run of a plan is not what the plan expects, None if in nothing."""
    from splitbrain.results.arrow import history_hash

    if plan.expect is None or plan.expect.history in (None, history_hash(conclusion.run.history())):
        return None
    return "run again, the plan gave another history: something in it is not deterministic."


__all__ = [
    "Failure",
    "Pool",
    "Smallest",
    "difference",
    "failure_of",
    "for_simulation",
    "plan_of_run",
    "smallest",
    "store_run",
]
