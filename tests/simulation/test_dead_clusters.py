"""No pass over a dead cluster: for each fault and workload, what a run must come to when clients are answered nothing.

The table says what is expected and why; nothing here is measured first. Nodes are well in every cell: it is clients
who are answered nothing, as if a proxy, a firewall or a client library had died.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Outcome, reasons
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.read_modes import SESSION_READS
from splitbrain.harness.running.simulate import simulate
from splitbrain.harness.systems import catalogue as systems
from splitbrain.workloads.catalogue import WORKLOADS
from tests.simulation.dead_systems import Dying, Moments

OPTIONS: Final[dict[str, Any]] = {
    "system": "metadata",
    "backend": "sim",
    "bug": "",
    "nodes": "3",
    "concurrency": "2n",
    "rate": 50.0,
    "time_limit": 12.0,
    "interval": 2.0,
    "op_timeout": 1.0,
    "recovery": 20.0,
    "seed": 3,
}

Dead = Callable[[Moments], bool]
Kill = Callable[[Moments], Dying]


def always(_: Moments) -> bool:
    return True


def under_faults(at: Moments) -> bool:
    return at.phase == "faults"


def after_a_moment(at: Moments) -> bool:
    return at.time_s > 3.0


def under_faults_after_a_moment(at: Moments) -> bool:
    return at.phase == "faults" and at.time_s > 3.0


def halfway(at: Moments) -> bool:
    return at.phase == "faults" and at.time_s > 9.0


def at_the_end(at: Moments) -> bool:
    return at.phase == "final"


def dying(at: Moments, *, how: str, dead: Dead, **more: Any) -> Dying:
    return Dying(how, lambda: dead(at), **more)


def kill(how: str, dead: Dead, **more: Any) -> Kill:
    return partial(dying, how=how, dead=dead, **more)


ALIVE: Final = kill("silent", lambda _: False)


class Cell(NamedTuple):
    """How clients are cut off, and why a run of that may not pass."""

    kill: Kill
    why: str


DEAD: Final[dict[str, Cell]] = {
    "nothing answers": Cell(kill("silent", always), "no op ended but by its timeout"),
    "everything fails": Cell(kill("refused", always), "no op happened"),
    "only unknown": Cell(kill("unknown", always), "nobody knows whether any op happened"),
    "nothing answers under faults": Cell(kill("silent", under_faults), "faults met a dead system"),
    "everything fails under faults": Cell(kill("refused", under_faults), "faults met a dead system"),
    "clients stuck after a moment": Cell(kill("silent", after_a_moment), "a quarter of the run was tested"),
    "dead after a moment, well at the end": Cell(
        kill("refused", under_faults_after_a_moment), "a quarter of the run was tested"
    ),
    "one node silent": Cell(kill("silent", under_faults, nodes=("n2",)), "a healthy node answered nobody"),
    "one node refuses": Cell(kill("refused", always, nodes=("n2",)), "a healthy node answered nobody"),
}

AT_THE_END: Final[dict[str, Cell]] = {
    "nothing answers at the end": Cell(kill("silent", at_the_end), "what survived the faults was never read"),
    "everything fails at the end": Cell(kill("refused", at_the_end), "what survived the faults was never read"),
}
"""For workloads that have a final phase."""

WHILE_HELD: Final = {
    "clients stuck while some hold locks": Cell(kill("silent", halfway), "holders believe, and no node answers")
}
"""For workloads whose clients answer some ops themselves."""

CALLS: Final[dict[str, tuple[str, ...]]] = {
    "register": ("read", "write", "compare_and_set"),
    "set": ("add", "elements"),
    "declare": ("create", "read"),
    "create-once": ("create", "read"),
    "counter": ("increment", "read_counter", "read_runs"),
    "lock": ("lock", "unlock"),
    "records": ("write",),
    "lease-lock": ("lease_lock", "lease_unlock"),
    "read-modes": ("write", *(f for f in SESSION_READS if f != "read-fenced")),
    "fenced-reads": ("write", "read", "read-fenced", "read-local"),
    "tree": ("in_tree",),
    "projections": ("write_record", "look_up", "come_and_go", "differing_records"),
    "list-append": ("transact",),
    "rw-register": (),
    "bank": ("transact", "update"),
    "long-fork": ("transact",),
    "g2": ("transact", "update"),
    "causal": ("transact",),
    "monotonic": ("transact", "update"),
    "multi-cas": ("transact", "update"),
    "predicates": ("in_universe",),
    "queue": ("publish", "take"),
    "single-active": ("publish", "consume", "leave"),
    "poison": ("publish", "take"),
    "replicas": ("publish", "replicas"),
    "migration": ("declare_with_value", "delete", "entities_with_values", "migrate", "roll_back"),
    "dead-letter": ("publish", "take"),
    "conversion": ("put_classic", "take_classic"),
    "stream": ("publish_to_stream", "read_stream"),
    "short-stream": ("publish_to_stream", "publish_once", "read_stream"),
    "flags": ("enable_flag", "list_flags"),
    "topology": ("declare", "delete", "claim", "disconnect", "owned", "entities", "projected"),
}
"""What each workload asks of a session: with any one of them dead alone, one of its functions proves nothing."""

GIVEN: Final[dict[str, dict[str, Any]]] = {
    "lease-lock": {"time_limit": 20.0, "concurrency": "8n"},
    **{key: {"rate": 200.0, "concurrency": "5n"} for key in ("bank", "g2", "monotonic")},
}
"""Workloads that need another load: a holder works for up to 20 s, so there must be many locks; and where transactions
must meet, many clients.
"""

WITHOUT_END: Final = ("lock", "records", "lease-lock")
"""Workloads without a final phase."""

SURVIVED: Final[dict[str, str]] = {
    "none": "nothing breaks",
    "clock": "no correct cluster trusts its clocks",
    "pause-one": "a majority goes on, and the node answers once it is resumed",
    "partition-one": "a majority goes on, and the node answers once it is healed",
}
"""Faults that a correct cluster survives, and why: with these a live cluster still passes."""


UNSAFE: Final = {("lease-lock", "pause-one"), ("lease-lock", "partition-one")}
"""A holder on a short lease is cut off: the check that must fail (`splitbrain.workloads.lease_lock`)."""


UNTRIED: Final = {("replicas", "none")}
"""Without a fault no replica has to be replaced, so that nothing of that was tested."""


def outcome_of(workload: str, nemesis: str, dead: Kill | None = None, **given: Any) -> tuple[Outcome, list[str]]:
    at = Moments()
    options = RunOptions.of(**{**OPTIONS, **GIVEN.get(workload, {}), "workload": workload, "nemesis": nemesis, **given})
    killed = dead or ALIVE
    with pytest.MonkeyPatch.context() as patch:
        if dead is not None or workload in (
            "lease-lock",
            "single-active",
        ):  # only the sessions of these tests have these

            def build(*_: str) -> Dying:
                return killed(at)

            patch.setattr(systems, "build", build)
        test = compose(options)
    left = simulate(test, observe=at.observe)
    assert left.failure is None
    verdicts = engine.judge(left.history, test.workload.checkers, left.telemetry)
    return engine.judged_outcome(verdicts, None)[0], [str(reason) for reason in reasons(verdicts)]


def never_passes(workload: str, nemesis: str, cell: Cell) -> None:
    outcome, told = outcome_of(workload, nemesis, cell.kill)
    assert outcome is not Outcome.PASS, cell.why
    assert outcome is Outcome.VIOLATION or told


def cells(workload: str) -> dict[str, Cell]:
    """All that can be dead for a workload."""
    alone = {
        f"{call} dead alone": Cell(kill("silent", always, calls=(call,)), "one function was never ok")
        for call in CALLS[workload]
    }
    at_times = {} if workload in WITHOUT_END else AT_THE_END
    return {**DEAD, **at_times, **(WHILE_HELD if workload == "lease-lock" else {}), **alone}


QUICK: Final = [
    (workload, "none" if place % 2 else "partition-one", name)
    for place, (workload, name) in enumerate(
        [
            ("register", "nothing answers under faults"),
            ("set", "clients stuck after a moment"),
            ("declare", "everything fails at the end"),
            ("create-once", "dead after a moment, well at the end"),
            ("lock", "everything fails under faults"),
            ("records", "one node silent"),
            ("set", "elements dead alone"),
            ("counter", "increment dead alone"),
            ("lease-lock", "clients stuck while some hold locks"),
            ("read-modes", "read-local dead alone"),
        ]
    )
]

WHOLE: Final = ("register", "set", "lock", "lease-lock")
"""Workloads of which everything is tried: coverage judges all others by the same rules, so that of these a part is."""

OF_OTHERS: Final = ("nothing answers under faults", "everything fails at the end", "one node silent")
"""Of which each other workload has one, in turn."""


def tried(workload: str, row: int) -> list[str]:
    """What can be dead, of a workload that is at that place in the table."""
    if workload in WHOLE:
        return list(cells(workload))
    return [name for name in cells(workload) if name == OF_OTHERS[row % len(OF_OTHERS)] or name.endswith("alone")]


_FAULTS: Final = ("none", "clock", "partition-one", "pause-one")

ALL: Final = [
    (workload, "none" if workload in GIVEN and workload not in WHOLE else _FAULTS[(row + place) % len(_FAULTS)], name)
    for row, workload in enumerate(CALLS)
    for place, name in enumerate(tried(workload, row))
]
"""Every workload with what can be dead, each under one of four kinds of fault, in turn; a heavy load under none."""


def test_the_table_has_a_row_for_every_workload() -> None:
    assert set(CALLS) == set(WORKLOADS) - {"formation"}, "which has a system of its own"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("workload", "nemesis", "name"), QUICK)
def test_a_dead_cluster_does_not_pass(workload: str, nemesis: str, name: str) -> None:
    never_passes(workload, nemesis, cells(workload)[name])


@pytest.mark.slow
def test_holders_who_believe_do_not_speak_for_a_cluster_that_answers_nothing() -> None:
    _, told = outcome_of("lease-lock", "none", WHILE_HELD["clients stuck while some hold locks"].kill)
    assert any("the system answered nothing from" in each for each in told)
    assert any("the system answered in only" in each for each in told)


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["register", "lock", "lease-lock"])
def test_a_live_cluster_still_passes(workload: str) -> None:
    assert outcome_of(workload, "none")[0] is Outcome.PASS


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "nemesis", "name"), ALL)
def test_no_dead_cluster_passes(workload: str, nemesis: str, name: str) -> None:
    never_passes(workload, nemesis, cells(workload)[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "nemesis"),
    [(workload, nemesis) for workload in CALLS for nemesis in (SURVIVED if workload in WHOLE else ["none"])],
)
def test_what_a_correct_cluster_survives_passes(workload: str, nemesis: str) -> None:
    outcome, told = outcome_of(workload, nemesis)
    expected = Outcome.VIOLATION if (workload, nemesis) in UNSAFE else Outcome.PASS
    expected = Outcome.INCONCLUSIVE if (workload, nemesis) in UNTRIED else expected
    assert outcome is expected, (SURVIVED[nemesis], told)
