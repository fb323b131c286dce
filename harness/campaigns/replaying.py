"""A replay: its original, running it, and comparing its result with the original one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from splitbrain.harness.campaigns.compose import RunOptions, backend_of, compose
from splitbrain.harness.campaigns.display import Displays, silent
from splitbrain.harness.campaigns.endings import Cut, cut_of
from splitbrain.harness.campaigns.planned import (
    LIMIT_S,
    Played,
    Task,
    elsewhere,
    options_of,
    play,
    repeated,
    test_of,
    with_revision,
)
from splitbrain.harness.campaigns.shrinking import plan_of_run, store_run
from splitbrain.harness.campaigns.warm import warm_up
from splitbrain.harness.campaigns.workers import Workers
from splitbrain.harness.running.plan import Plan, encode, load
from splitbrain.results.arrow import history_hash
from splitbrain.results.errors import HarnessError, SplitbrainError, UsageError
from splitbrain.results.origin import OWN_CODE, git_revision, versions
from splitbrain.results.quantities import counted
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from splitbrain.results.stores import is_run

if TYPE_CHECKING:
    from splitbrain.harness.campaigns.judging import Conclusion

_TICK_S = 0.2


class Original(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run again, and what came of it.

    Attributes:
        source: the run's or the file's name.
        options: what its test is composed from.
        plan: the plan that it follows; None for a run that follows its seed.
        outcome, history, fingerprint: its results; None if unknown.
        versions: of the software that recorded it.
        changed: whether the plan was changed after that run: then it is judged as a new plan.
        cut: where the simulated run was ended early, None if it was complete; a replay continues beyond it.
    """

    source: str
    options: RunOptions
    plan: Plan | None
    outcome: str | None = None
    history: str | None = None
    fingerprint: str | None = None
    versions: Mapping[str, str] = {}
    changed: bool = False
    cut: Cut | None = None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Whether replays were what they should be.

    Attributes:
        same: how many of them gave the history that is known, of a run that was ended early as far as it goes; None if
            none is known.
        hashes: every history hash that came up, with how often.
        differences: what is another version than then ("python 3.12.1 then, 3.11.7 now").
        problem: why the harness is broken; None if it is not.
        sentence: all of that, in words.
    """

    same: int | None
    hashes: Mapping[str, int]
    differences: Sequence[str]
    problem: str | None
    sentence: str


def original_of(reference: str, store: Path, backend: str | None = None) -> Original:
    """What a person means: a plan file, or a run of the store.

    Args:
        reference: as given.
        store: where runs are.
        backend: where to carry it out instead of where it was recorded.

    Raises:
        UsageError: there is no such run or file, or the run cannot be repeated.
    """
    if Path(reference).is_file():
        original = _of_plan(load(reference), reference, backend)
        return _elsewhere(msgspec.structs.replace(original, cut=_cut_beside(original, Path(reference))), backend)
    run = Store(store).find(reference)
    document = repeated(run)
    run.verify("test.json", run.plan_path.name)
    options = options_of(document.get("options") or {}, str(run.path))
    if document.get("scripted"):
        return _elsewhere(_of_plan(load(run.plan_path), f"run {run.name}", backend), backend)
    if options.backend != "sim" or backend not in (None, "sim"):
        plan = plan_of_run(run)
        return _elsewhere(_of_plan(plan, f"run {run.name}", backend), backend)
    judged = run.read_verdicts()
    figures: Mapping[str, Any] = document.get("simulation") or {}
    history = run.history()
    return Original(
        source=f"run {run.name}",
        options=options,
        plan=None,
        outcome=None if judged is None else judged.outcome,
        history=history_hash(history),
        fingerprint=figures.get("fingerprint"),
        versions=with_revision(document.get("versions") or {}, document.get("git")),
        cut=cut_of(run, history),
    )


def _of_plan(plan: Plan, source: str, backend: str | None) -> Original:
    """A plan that was taken from a simulated run and is as it was stands for that run: its seed gives it again."""
    expect, options = plan.known(), options_of(plan.options, source)
    of_seed = options.backend == "sim" and backend in (None, "sim") and plan.of_seed == plan.digest()
    return Original(
        source=source,
        options=options,
        plan=None if of_seed else msgspec.structs.replace(plan, expect=expect),
        outcome=None if expect is None else expect.outcome,
        history=None if expect is None else expect.history,
        fingerprint=None if expect is None else expect.fingerprint,
        versions=plan.versions,
        changed=plan.expect is not None and expect is None,
    )


def _cut_beside(original: Original, path: Path) -> Cut | None:
    """Where the simulated run was ended early that has the plan in its folder; None if the plan is in no such run."""
    if original.history is not None or original.options.backend != "sim" or not is_run(str(path.parent)):
        return None
    run = RunDir(path.parent)
    return cut_of(run, run.history()) if path.name == run.plan_path.name and run.recorded() else None


def _elsewhere(original: Original, backend: str | None) -> Original:
    """The same on another backend: what is known of it then holds no more."""
    if backend is None or backend == original.options.backend:
        return original
    options = elsewhere(original.options, backend)
    if backend == "ssh" and options.hosts is None:
        raise UsageError(
            f"--backend ssh: {original.source} was not recorded on hosts, and names none: run on them what is to be "
            "replayed there, with splitbrain run --backend ssh --hosts."
        )
    plan = None if original.plan is None else msgspec.structs.replace(original.plan, expect=None)
    return Original(source=original.source, options=options, plan=plan, versions=original.versions)


# --- in simulation ----------------------------------------------------------------------------------------------------


def replay(
    original: Original, times: int, jobs: int, show: Callable[[int, str], None] = lambda _, __: None
) -> list[Played]:
    """Simulate it this number of times, in parallel; results in the order of their begins.

    Args:
        original: what is to be run again.
        times: how often.
        jobs: worker processes; one replay is done in this process.
        show: called with how many are done, and with what is done now.

    Raises:
        HarnessError: a worker process died.
    """
    plan = None if original.plan is None else encode(original.plan)
    test_of(original.options, original.plan)  # raises errors at once
    if times == 1:
        return [play(_task(original, plan, 0), lambda what: show(0, f"replaying {original.source}: {what}"))]
    played: dict[int, Played] = {}
    given = 0
    with Workers(play, min(jobs, times), prepare=warm_up, limit_s=LIMIT_S) as workers:
        while len(played) < times:
            while workers.free and given < times:
                workers.give(_task(original, plan, given))
                given += 1
            under_way = ", ".join(str(task.number + 1) for task in workers.tasks.values())
            show(len(played), f"replaying {original.source}: simulating and judging replay {under_way}")
            for report in workers.wait(_TICK_S):
                if report.answer is None:
                    raise HarnessError(f"{original.source}: replay {report.task.number + 1}: {report.problem}")
                played[report.task.number] = report.answer
    return [played[number] for number in range(times)]


def _task(original: Original, plan: bytes | None, number: int) -> Task:
    rows = None if original.cut is None else original.cut.rows
    return Task(number, original.options, plan, rows=rows)


def compare(original: Original, runs: Sequence[Played]) -> Comparison:
    """Whether every replay gave the history that is known, and what explains it if not."""
    hashes: dict[str, int] = {}
    for each in runs:
        hashes[each.history_hash] = hashes.get(each.history_hash, 0) + 1
    now = _versions_now(original)
    differences = _differences(original.versions, now)
    prints = {each.fingerprint: None for each in runs}
    if len(hashes) > 1 or len(prints) > 1:
        problem = f"the simulation is not deterministic: {counted(len(runs), 'replay')} gave {len(hashes)} histories."
        return _comparison(original, hashes, differences, problem, problem)
    [found] = hashes
    times = "" if len(runs) == 1 else f", {len(runs)} times out of {len(runs)}"
    if original.history is None:
        return _comparison(original, hashes, differences, None, f"history {found[:16]}{times}; {_unknown(original)}.")
    if original.cut is not None and found != original.history:
        return _compare_beginning(original, original.cut, runs, hashes, differences, now)
    if found == original.history and not differences and original.fingerprint not in (None, *prints):
        problem = "the same history, but other draws of randomness on the way: the simulation is not deterministic."
        return _comparison(original, hashes, differences, problem, problem)
    if found == original.history:
        return _comparison(original, hashes, differences, None, f"the same history, hash {found[:16]}{times}")
    then = f"another history than then (hash {found[:16]} instead of {original.history[:16]}){times}"
    return _another(original, hashes, differences or _not_recorded(original.versions, now), then)


def _versions_now(original: Original) -> dict[str, str]:
    """The versions that have a say in the replays: of the code of other packages, what the run used, then or now."""
    used = {*original.versions, *versions(msgspec.to_builtins(original.options))}
    now = {name: version for name, version in versions().items() if not name.startswith(OWN_CODE) or name in used}
    return with_revision(now, git_revision())


def _not_recorded(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What may explain another history, and was not recorded: runs of earlier versions lack it."""
    if "git" not in then:
        return ["the revision of the code of that run is unknown"]
    return [f"the {name} in that run is unknown" for name in now if name.startswith(OWN_CODE) and name not in then]


def _unknown(original: Original) -> str:
    """Why no history is known."""
    if original.cut is not None:
        return f"{original.cut.sentence}, so that there is nothing whole to compare it with"
    return "the plan was changed since it was run" if original.changed else "none is known to compare"


def _compare_beginning(
    original: Original,
    cut: Cut,
    runs: Sequence[Played],
    hashes: Mapping[str, int],
    differences: Sequence[str],
    now: Mapping[str, str],
) -> Comparison:
    """The same for a run that was ended early: only the rows before that can be compared."""
    [found] = hashes
    times = "" if len(runs) == 1 else f", {len(runs)} times out of {len(runs)}"
    if not cut.rows:
        sentence = f"history {found[:16]}{times}; {cut.sentence}, before there was anything to compare it with."
        return msgspec.structs.replace(_comparison(original, hashes, differences, None, sentence), same=None)
    beginning = runs[0].beginning or ""
    if beginning == cut.beginning:
        sentence = f"{cut.sentence}; up to there it is the same history{times}."
        return msgspec.structs.replace(_comparison(original, hashes, differences, None, sentence), same=len(runs))
    then = f"{cut.sentence}; up to there it is another history (hash {beginning[:16]} instead of {cut.beginning[:16]})"
    return _another(original, hashes, differences or _not_recorded(original.versions, now), f"{then}{times}")


def _another(original: Original, hashes: Mapping[str, int], differences: Sequence[str], then: str) -> Comparison:
    """What explains another history; nothing but a simulation that is not deterministic, if all versions are the same.

    Args:
        original: what was replayed.
        hashes: what came up.
        differences: versions that are others now, or are not known.
        then: says that the history differs, as the begin of a sentence.
    """
    if differences:
        return _comparison(original, hashes, differences, None, f"{then}: {'; '.join(differences)}.")
    problem = f"{then}, although code and Python are the same: the simulation is not deterministic."
    return _comparison(original, hashes, differences, problem, problem)


def _comparison(
    original: Original, hashes: Mapping[str, int], differences: Sequence[str], problem: str | None, sentence: str
) -> Comparison:
    same = None if original.history is None else hashes.get(original.history, 0)
    return Comparison(same=same, hashes=hashes, differences=differences, problem=problem, sentence=sentence)


def _differences(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Versions that differ now; code with uncommitted changes counts as different."""
    return [
        f"{name} {then[name]} then, {now.get(name, 'none')} now"
        for name in sorted(then, key=lambda name: name != "git")
        if then[name] != now.get(name) or (name == "git" and then[name].endswith("with changes"))
    ]


def keep(original: Original, store: Path, displays: Displays = silent) -> Conclusion:
    """Run it once more into the store; `displays` make what shows how it goes.

    Raises:
        SplitbrainError: it could not be run.
    """
    from splitbrain.harness.campaigns.record import run_and_judge

    if original.plan is None:
        return run_and_judge(
            compose(original.options),
            backend_of(original.options),
            store,
            notes={"derived_from": original.source},
            displays=displays,
        )
    with displays(f"keeping {original.source}") as display:
        return store_run(plan_to_repeat(original), store, display, original.source)


# --- on real nodes ----------------------------------------------------------------------------------------------------


def plan_to_repeat(original: Original) -> Plan:
    """The plan, with the current options.

    Raises:
        SplitbrainError: there is none.
    """
    if original.plan is None:
        raise SplitbrainError(f"{original.source} has no plan.")
    plan = msgspec.structs.replace(original.plan, options=msgspec.to_builtins(original.options))
    return plan if plan.expect is None else plan.expecting(plan.expect)
