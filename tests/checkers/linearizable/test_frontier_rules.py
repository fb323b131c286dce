"""What keeps the frontier small leaves nothing out and lets nothing in: overwrites that are hidden, ops that are alike,
and crashed ones.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable import search as search_module
from splitbrain.checkers.linearizable import transitions
from splitbrain.checkers.linearizable.decoding import Configuration
from splitbrain.checkers.linearizable.depth_first import DepthFirst
from splitbrain.checkers.linearizable.encoding import events
from splitbrain.checkers.linearizable.frontier import DONE, EVENT, NARROW, PAUSED, VIOLATION, WIDE
from splitbrain.checkers.linearizable.machine import Machine
from splitbrain.checkers.linearizable.ops import Ops, read_ops
from splitbrain.checkers.linearizable.program import program
from splitbrain.checkers.linearizable.search import Limits, Result, Search
from splitbrain.checkers.linearizable.transitions import Stepper
from splitbrain.checkers.models import IMPOSSIBLE, Model
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op, Pair
from tests.checkers.linearizable.busy_registers import busy_register
from tests.checkers.linearizable.support import (
    FAR,
    Table,
    failing_index,
    finals,
    linearizable,
    random_history,
    search,
)

EVERY_WAY = 1 << 30
"""A cap that is never reached."""


def written(*steps: str, model: str = "register") -> list[Op]:
    """A history from lines as "1 write 5" and "1 ok"; "2 ok 5" gives a read's value, "3 info" a crash."""
    history: list[Op] = []
    under_way: dict[int, Op] = {}
    for step in steps:
        process, what, *rest = step.split()
        value: Any = int(rest[0]) if len(rest) == 1 else [int(each) for each in rest] or None
        number = int(process)
        if what in ("ok", "info"):
            op = under_way.pop(number)
            result = value if op.f == "read" else op.value
            history.append(op.complete("ok", result) if what == "ok" else op.complete("info"))
        else:
            under_way[number] = op = Op(process=number, type="invoke", f=what, value=value)
            history.append(op)
    return [_numbered(op, index) for index, op in enumerate(history)]


def _numbered(op: Op, index: int) -> Op:
    return Op(process=op.process, type=op.type, f=op.f, value=op.value, index=index, time=index)


def numbered(ops: Sequence[Op]) -> list[Op]:
    return [_numbered(op, index) for index, op in enumerate(ops)]


def judged(*steps: str, model: str = "register") -> str:
    return search(models.model(model), written(*steps))[0].answer


# --- against the definition -------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cap", [1, EVERY_WAY])
@pytest.mark.parametrize("name", ["cas-register", "register", "create-once"])
def test_optional_ops_and_crowds_on_few_values_are_judged_by_the_definition(
    name: str, cap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the histories have ops that may have happened and need not: they expire instead of returning."""
    monkeypatch.setattr(search_module, "CAP", cap)
    rng = random.Random(f"{name} {cap}")
    model = models.model(name)
    verdicts: list[bool] = []
    for number in range(120):
        history = random_history(
            rng, name, ops=8, processes=5, lies=rng.choice([0.05, 0.3]), crashes=rng.choice([0.0, 0.2, 0.5])
        )
        ops = read_ops(to_table(history), model)
        obliged = np.array([number % 2 == 0 or rng.random() < 0.6 for _ in ops.invoked], np.bool_)
        indexes = {int(ops.cell("index", int(row))) for row in ops.invoked[obliged]}
        stepper = Stepper(Table(model) if number % 3 == 0 else model, ops.transitions, cells=1_000_000)
        problem = events(ops, stepper.observer, obliged=obliged)
        result = Search(problem, stepper, Limits()).run()

        def must(pair: Pair, indexes: set[int] = indexes) -> bool:
            return pair.invoke.index in indexes

        verdicts.append(linearizable(model, history, FAR - 1, must))
        assert result.answer == ("linearizable" if verdicts[-1] else "violation")
        if not verdicts[-1]:
            end = failing_index(problem, ops, result)
            assert result.exact
            assert linearizable(model, history, end - 1, must)
            assert not linearizable(model, history, end, must)
            found = {int(number) for number in result.reachable[:, 0]}
            possible = {stepper.states.number(state) for state in finals(model, history, end - 1, must)}
            assert found == possible if result.complete else found <= possible
    assert 6 < sum(verdicts) < 114


@pytest.mark.slow
@pytest.mark.parametrize("cap", [1, 3, EVERY_WAY])
def test_longer_histories_with_crashed_ops_end_where_the_depth_first_arm_says(
    cap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "CAP", cap)
    rng = random.Random(cap)
    answers: list[str] = []
    for _ in range(150):
        history = random_history(rng, "cas-register", ops=30, processes=7, lies=0.03, crashes=rng.choice([0.0, 0.15]))
        result, _, ops, stepper = search(models.model("cas-register"), history)
        expected = DepthFirst(ops, stepper, Limits()).run()
        assert (result.answer, result.event) == (expected.answer, expected.event)
        assert result.exact
        answers.append(result.answer)
    assert 20 < answers.count("violation") < 130


@pytest.mark.slow
def test_configurations_are_what_can_be_so_before_the_end() -> None:
    """Each is reached by an order of the ops that it says have happened, whether its free ones have or not."""
    rng = random.Random(3)
    model = models.model("cas-register")
    told: list[Configuration] = []
    for _ in range(300):
        history = random_history(rng, "cas-register", ops=9, processes=5, lies=0.0, crashes=0.2)
        ops = read_ops(to_table(history), model)
        stepper = Stepper(model, ops.transitions, cells=1_000)
        until = int(rng.choice(ops.invoked.tolist()))
        finder = Search(events(ops, stepper.observer, until_row=until), stepper, Limits(), remember=True)
        result = finder.run()
        assert result.answer == "linearizable"
        returned = {int(op) for op in np.flatnonzero(~ops.crashed & (ops.completed <= until) & (ops.invoked <= until))}
        reached = _reached(model, ops, until)
        for configuration in finder.configurations(result):
            told.append(configuration)
            happened = returned | {*configuration.done, *configuration.used}
            state = stepper.states.known[configuration.state]
            assert (state, frozenset(happened)) in reached
            assert (state, frozenset(happened | {*configuration.free})) in reached
    for name in ("done", "free", "used"):
        assert sum(bool(getattr(configuration, name)) for configuration in told) > 20


def _reached(model: Model, ops: Ops, until: int) -> set[tuple[Any, frozenset[int]]]:
    """Every state, with the ops that took effect, that an order of ops which were invoked by then can end in."""
    numbers = [op for op in range(len(ops.invoked)) if ops.invoked[op] <= until]
    seen: set[tuple[Any, frozenset[int]]] = set()
    ways: list[tuple[Any, frozenset[int]]] = [(model.init(), frozenset())]
    while ways:
        state, happened = way = ways.pop()
        if way in seen:
            continue
        seen.add(way)
        for op in numbers:
            first = [
                other
                for other in numbers
                if not ops.crashed[other] and ops.completed[other] < ops.invoked[op] and other not in happened
            ]
            if op in happened or first:
                continue
            what = ops.transitions[int(ops.transition[op])]
            following = model.step(state, what.f, what.value, what.result)
            if following is not IMPOSSIBLE:
                ways.append((following, happened | {op}))
    return seen


# --- overwrites -------------------------------------------------------------------------------------------------------


def test_a_hidden_write_returns_unseen_and_may_be_seen_at_the_last_moment() -> None:
    """Write 1 is under way when write 2 takes effect: it was right before that, or comes after the read of 2."""
    begins = ("1 write 1", "2 write 2", "2 ok", "3 read", "3 ok 2", "1 ok")
    assert judged(*begins, "3 read", "3 ok 2") == "linearizable"
    assert judged(*begins, "3 read", "3 ok 1") == "linearizable"
    assert judged(*begins, "3 read", "3 ok 2", "3 read", "3 ok 1") == "violation"
    assert judged(*begins, "3 read", "3 ok 1", "3 read", "3 ok 2") == "violation"


def test_a_write_is_not_hidden_by_one_that_was_over_when_it_began() -> None:
    begins = ("2 write 2", "2 ok", "1 write 1", "1 ok", "3 read")
    assert judged(*begins, "3 ok 2") == "violation"
    assert judged(*begins, "3 ok 1") == "linearizable"


def test_a_crashed_write_hides_others_as_any_does() -> None:
    """Write 1 returns while 2 is read: what crashed took effect after it, or before."""
    begins = ("1 write 1", "2 write 2", "2 info", "3 read", "3 ok 2", "1 ok", "3 read")
    assert judged(*begins, "3 ok 2") == "linearizable"
    assert judged(*begins, "3 ok 1") == "linearizable"
    assert judged(*begins, "3 ok 2", "3 read", "3 ok 1") == "violation"


def test_forty_clients_on_few_values_have_a_small_frontier() -> None:
    """All sets of pending writes that may have happened would be many thousands."""
    for bad in (False, True):
        history = busy_register(1, clients=40, ops=1000, values=5, bad=bad)
        result = search(models.model("cas-register"), history)[0]
        assert result.answer == ("violation" if bad else "linearizable")
        assert result.peak < 500


class Lying:
    """A register in a table, whose write it says overwrites; a write of 3 adds to what was there."""

    name = "lying"
    fs = frozenset({"write", "read"})

    def init(self) -> Any:
        return 0

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        if f == "read":
            return state if state == result else IMPOSSIBLE
        return state + 3 if value == 3 else value

    def observes(self, f: str, value: Any, result: Any) -> bool:
        return f == "read"

    def overwrites(self, f: str, value: Any, result: Any) -> bool:
        return f == "write"


def test_a_model_whose_overwrite_depends_on_the_state_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transitions, "CLOSURE_CELLS", 0)
    honest = written("1 write 1", "2 write 2", "1 ok", "2 ok", "3 read", "3 ok 1")
    result, _, _, stepper = search(Lying(), honest)
    assert (result.answer, stepper.mode) == ("linearizable", "lazy table")
    assert stepper.overwrite.any()
    with pytest.raises(UsageError, match="says that write 3 overwrites, yet what it leaves depends on the state"):
        search(Lying(), written("1 write 1", "2 write 3", "1 ok", "2 ok", "3 read", "3 ok 3"))


# --- ops that are alike -----------------------------------------------------------------------------------------------


def test_of_identical_ops_the_first_to_return_goes_first() -> None:
    """Thirty adds of 1 at once: not which of them took effect is followed, but how many."""
    adds = [Op(process=i, type="invoke", f="add", value=1) for i in range(30)]
    read = Op(process=99, type="invoke", f="read")
    for total in (14, 15, 30, 31):
        history = [*adds, read, *(add.complete("ok", 1) for add in adds[:15]), read.complete("ok", total)]
        history += [read, read.complete("ok", max(total, 15))]
        result = search(models.model("counter"), numbered(history))[0]
        assert result.answer == ("violation" if total == 31 else "linearizable")
        assert result.peak < 100


def test_an_optional_op_is_not_taken_for_an_identical_one_that_must_happen() -> None:
    """One of two cas can have been possible: the one that must, whichever of them ends first."""
    for ends in (("1 ok", "2 ok"), ("2 ok", "1 ok")):
        history = written("1 cas 0 1", "2 cas 0 1", "3 write 0", "3 ok", "3 read", "3 ok 1", *ends, "3 read", "3 ok 1")
        ops = read_ops(to_table(history), models.model("cas-register"))
        stepper = Stepper(models.model("cas-register"), ops.transitions, cells=100)
        for optional in (0, 1):
            obliged = np.array([op != optional for op in range(len(ops.invoked))], np.bool_)
            problem = events(ops, stepper.observer, obliged=obliged)
            assert Search(problem, stepper, Limits()).run().answer == "linearizable"
        assert Search(events(ops, stepper.observer), stepper, Limits()).run().answer == "violation"


# --- crashed ops ------------------------------------------------------------------------------------------------------


def test_identical_crashed_ops_are_counted_up_to_the_last_one() -> None:
    crashed = [Op(process=i, type="invoke", f="add", value=1) for i in range(300)]
    reads: list[Op] = []
    for total in range(1, 302):
        read = Op(process=999, type="invoke", f="read")
        reads += [read, read.complete("ok", total)]
    assert search(models.model("counter"), numbered([*crashed, *reads[:-2]]))[0].answer == "linearizable"
    result, problem, ops, _ = search(models.model("counter"), numbered([*crashed, *reads]))
    assert result.answer == "violation"
    assert failing_index(problem, ops, result) == 300 + 2 * 301 - 1


def test_a_crashed_write_is_forgotten_once_nobody_asks_for_its_value() -> None:
    """Two hundred values are written and not heard of again, beside one that is read now and then."""
    history: list[Op] = []
    for i in range(200):
        history += [Op(process=i + 1, type="invoke", f="write", value=i + 10)]
        write, read = Op(process=0, type="invoke", f="write", value=1), Op(process=0, type="invoke", f="read")
        history += [write, write.complete("ok", 1), read, read.complete("ok", 1)]
    result = search(models.model("register"), numbered(history))[0]
    assert result.answer == "linearizable"
    assert result.frontier.shape[1] == 3, "there is nothing to be counted"
    seen = Op(process=0, type="invoke", f="read")
    late = [*history, seen, seen.complete("ok", 50), seen, seen.complete("ok", 51)]
    assert search(models.model("register"), numbered(late))[0].answer == "linearizable"
    again = [*late, seen, seen.complete("ok", 50)]
    assert search(models.model("register"), numbered(again))[0].answer == "violation"


def crowded_with_crashes(seed: int, ops: int, rate: float, *, bad: bool) -> tuple[Result, int]:
    """The result for ten busy clients, and how many mutators crashed."""
    history = busy_register(seed, clients=10, ops=ops, values=5, crashes=rate, bad=bad)
    result, _, read, stepper = search(models.model("cas-register"), history)
    return result, int(np.count_nonzero(read.crashed & ~stepper.observer[read.transition]))


@pytest.mark.slow
def test_many_crashed_ops_cost_little_and_leave_the_prefix_exact() -> None:
    for ops, rate, at_least in ((1_000, 0.05, 15), (3_000, 0.02, 15), (7_000, 0.05, 128)):
        for bad in (False, True):
            result, mutators = crowded_with_crashes(1, ops, rate, bad=bad)
            assert mutators > at_least
            assert result.answer == ("violation" if bad else "linearizable")
            assert result.exact
            assert result.expanded < 40 * ops


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_crashed_ops_of_long_runs_are_affordable(seed: int) -> None:
    for bad in (False, True):
        result, mutators = crowded_with_crashes(seed, 10_000, 0.05, bad=bad)
        assert mutators > 128
        assert (result.answer, result.exact) == ("violation" if bad else "linearizable", True)
        assert result.expanded < 40 * 10_000


def used_up(seed: int, *, clients: int, ops: int, crashes: float) -> list[Op]:
    """A legal history with crashed ops; then reads that each need one of them, until there are not enough."""
    history = busy_register(seed, clients=clients, ops=ops, values=5, crashes=crashes)
    rng = random.Random(0)
    value = -1
    for _ in range(80):
        value = rng.choice([other for other in range(5) if other != value])
        read = Op(process=10**6, type="invoke", f="read")
        history += [read, read.complete("ok", value)]
    return numbered(history)


def run_of(ops: Ops, stepper: Stepper, policy: int) -> tuple[int, int]:
    """How a machine ends that keeps one way to use crashed ops, and the event at which it does."""
    problem = events(ops, stepper.observer)
    machine = Machine(
        program(problem.events, stepper),
        stepper,
        slots=problem.slots,
        policy=policy,
        cap=1,
        initial=[0],
        memory_bytes=1 << 30,
    )
    status = PAUSED
    while status not in (DONE, VIOLATION):
        status = machine.advance(1_000)
    return status, int(machine.m[EVENT])


@pytest.mark.slow
def test_a_narrow_run_explains_only_what_can_be_and_a_wide_one_refutes_only_what_cannot() -> None:
    model = models.model("cas-register")
    parted = 0
    for seed in range(100):
        ops = read_ops(to_table(used_up(seed, clients=4, ops=80, crashes=0.3)), model)
        stepper = Stepper(model, ops.transitions, cells=1_000)
        expected = DepthFirst(ops, stepper, Limits()).run()
        narrow, wide = (run_of(ops, stepper, policy) for policy in (NARROW, WIDE))
        assert narrow[1] <= expected.event <= wide[1]
        assert (expected.answer, narrow[0]) == ("violation", VIOLATION)
        parted += narrow != wide
    assert parted > 5


def test_a_merged_configuration_has_used_as_few_as_any_of_those_that_it_stands_for() -> None:
    """To 9 lead a write, two cas, or three; what follows needs the write and the three, so that all six are used."""
    crashes = ("write 9", "cas 0 1", "cas 1 9", "cas 0 2", "cas 2 3", "cas 3 9")
    needs = [("50", "9"), ("2", "3"), ("3", "9"), ("0", "2")]
    history = written(
        *("1 write 0", "1 ok"),
        *(f"{process} {crash}" for process, crash in enumerate(crashes, 10)),
        *("1 read", "1 ok 9"),
        *(step for value, seen in needs for step in (f"1 write {value}", "1 ok", "1 read", f"1 ok {seen}")),
    )
    ops = read_ops(to_table(history), models.model("cas-register"))
    stepper = Stepper(models.model("cas-register"), ops.transitions, cells=1_000)
    assert run_of(ops, stepper, WIDE)[0] == DONE
    assert run_of(ops, stepper, NARROW)[0] == VIOLATION
    assert search(models.model("cas-register"), history)[0].answer == "linearizable"


def test_where_the_turns_disagree_the_prefix_is_found_in_more_of_them_or_said_not_to_be_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact, *_ = search(models.model("cas-register"), used_up(8, clients=10, ops=400, crashes=0.1))
    assert (exact.answer, exact.exact) == ("violation", True)
    monkeypatch.setattr(search_module, "CAP", EVERY_WAY)
    whole, *_ = search(models.model("cas-register"), used_up(8, clients=10, ops=400, crashes=0.1))
    assert (whole.answer, whole.exact, whole.event) == ("violation", True, exact.event)
    monkeypatch.setattr(search_module, "CAP", 1)
    monkeypatch.setattr(search_module, "PREFIX_S", 0.0)
    early, *_ = search(models.model("cas-register"), used_up(8, clients=10, ops=400, crashes=0.1))
    assert (early.answer, early.exact, early.complete) == ("violation", False, False)
    assert early.event >= exact.event
    assert early.expanded < exact.expanded


# --- the search ------------------------------------------------------------------------------------------------------


def test_a_search_that_stops_at_every_moment_comes_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may add states and cells to the table in between."""
    monkeypatch.setattr(search_module, "BUDGET", 1)
    monkeypatch.setattr(transitions, "CLOSURE_CELLS", 0)
    rng = random.Random(5)
    model = models.model("counter")
    for _ in range(30):
        history = random_history(rng, "counter", ops=9, processes=4, lies=0.1, crashes=0.2)
        expected, problem, ops, _ = search(model, history)
        stepper = Stepper(model, ops.transitions, cells=1_000_000)
        finder = Search(problem, stepper, Limits())
        result = None
        while result is None:
            result = finder.advance(0.0)
            stepper.states.number(1000 + len(stepper.states.known))
            stepper.fill(0, list(range(len(ops.transitions))))
        assert (result.answer, result.event, result.exact) == (expected.answer, expected.event, expected.exact)


def test_a_search_begins_in_the_states_that_it_is_given() -> None:
    model = models.model("register")
    ops = read_ops(to_table(written("1 read", "1 ok 4", "2 write 5", "2 ok")), model)
    stepper = Stepper(model, ops.transitions, cells=100)
    problem = events(ops, stepper.observer)
    three, four, five = (stepper.states.number(value) for value in (3, 4, 5))
    result = Search(problem, stepper, Limits(), [three, four]).run()
    assert (result.answer, result.frontier[:, 0].tolist()) == ("linearizable", [five])
    assert Search(problem, stepper, Limits(), [three, five]).run().answer == "violation"


@pytest.mark.slow
def test_the_memory_of_states_and_of_the_table_of_steps_is_limited() -> None:
    """One configuration at a time; but as many states as ops."""
    history: list[Op] = []
    for _ in range(6_000):
        add = Op(process=0, type="invoke", f="add", value=1)
        history += [add, add.complete("ok", 1)]
    limited = search(models.model("counter"), numbered(history), Limits(memory_bytes=200_000))[0]
    assert limited.answer == "memory"
    assert 0 < limited.event < 12_000
    assert (
        search(models.model("counter"), numbered(history), Limits(memory_bytes=2_000_000))[0].answer == "linearizable"
    )
