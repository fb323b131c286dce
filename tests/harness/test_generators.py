"""Generators, one claim each, carried out under virtual time."""

from __future__ import annotations

import itertools
from collections import Counter

import msgspec
import pytest
from simulator import MS, NODES, Ending, fs, imperfect, invocations, perfect, quick, simulate, times_ms, values

from splitbrain.harness.contract.generator import Pending, idle_until
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.generators import (
    NOTHING,
    PENDING,
    Context,
    Generator,
    Result,
    any_of,
    beside,
    clients,
    concurrent_keys,
    each,
    each_process,
    each_thread,
    elsewhere,
    f_map,
    final,
    flip_flop,
    generator,
    invoke,
    limit,
    mix,
    nemesis,
    once,
    phases,
    rate,
    repeat,
    reserve,
    sequence,
    sequential_keys,
    sleep,
    spaced,
    stagger,
    time_limit,
    until_ok,
)
from splitbrain.harness.generators.leaves import Source
from splitbrain.harness.generators.outcome import ATTEMPTS_MAX
from splitbrain.harness.generators.timing import CATCH_UP_NS
from splitbrain.results.errors import ProtocolError, UsageError
from splitbrain.results.history import NEMESIS, Op, OpType

READ, WRITE, KILL = invoke("read"), invoke("write", 1), invoke("kill")


def counting() -> Generator:
    """Ops whose values count the calls of the function that made them."""
    numbers = itertools.count()
    return each(lambda ctx: invoke("n", next(numbers)))


def overlaps(history: list[Op]) -> int:
    """The largest number of ops that were under way at once."""
    most = now = 0
    for op in history:
        now += 1 if op.type == "invoke" else -1
        most = max(most, now)
    return most


# --- leaves ---------------------------------------------------------------------------------------------------------


def test_an_op_is_carried_out_once_by_a_free_process() -> None:
    history = perfect(once(READ))
    assert [(op.type, op.f) for op in history] == [("invoke", "read"), ("ok", "read")]
    assert history[0].process in (0, 1, NEMESIS)


def test_each_calls_its_function_once_for_every_op_and_never_for_one_that_is_not_carried_out() -> None:
    history = perfect(clients(limit(50, counting())), 3)
    assert values(history) == list(range(50))


def test_each_uses_every_free_thread_at_once() -> None:
    assert overlaps(perfect(clients(limit(30, counting())), 7)) == 7


def test_free_threads_are_chosen_evenly_at_a_low_rate() -> None:
    history = perfect(clients(limit(900, rate(10, READ_FOREVER))), 9)
    counts = Counter(op.process for op in invocations(history))
    assert set(counts) == set(range(9))
    assert max(counts.values()) < 2 * min(counts.values())


def test_picking_among_few_of_many_threads_is_even() -> None:
    ctx = Context.initial(50, ("n1",), Streams(1)["w"], Streams(1)["n"])
    mask = 1 << 3 | 1 << 47
    counts = Counter(ctx.pick(mask) for _ in range(1000))
    assert set(counts) == {3, 47}
    assert min(counts.values()) > 400


READ_FOREVER = each(lambda ctx: invoke("read"))


def test_a_thing_that_is_no_generator_is_refused_by_name() -> None:
    with pytest.raises(ProtocolError, match="'nonsense' is not a generator"):
        generator("nonsense")  # type: ignore[arg-type]


# --- order ----------------------------------------------------------------------------------------------------------


def test_a_sequence_goes_on_with_the_next_when_one_ends() -> None:
    assert values(quick(sequence(*(invoke("w", i) for i in range(5))))) == [0, 1, 2, 3, 4]
    assert fs(quick(sequence())) == []


def test_a_sequence_does_not_wait_for_ops_under_way_but_phases_do() -> None:
    one, two = limit(2, each(lambda ctx: invoke("one"))), limit(2, each(lambda ctx: invoke("two")))
    assert overlaps(perfect(sequence(one, two), 3)) == 4
    history = perfect(clients(phases(one, two)), 3)
    last_of_one = max(i for i, op in enumerate(history) if op.f == "one")
    first_of_two = min(i for i, op in enumerate(history) if op.f == "two")
    assert last_of_one < first_of_two
    assert overlaps(history) == 2


def test_repeat_carries_out_the_whole_again() -> None:
    assert fs(quick(limit(5, repeat(sequence(READ, WRITE))))) == ["read", "write", "read", "write", "read"]
    assert fs(quick(repeat(sequence(READ, WRITE), 2))) == ["read", "write"] * 2
    assert fs(quick(repeat(READ, 0))) == []


def test_repeating_nothing_ends() -> None:
    assert quick(repeat(NOTHING)) == []


def test_limit_counts_ops_not_questions() -> None:
    history = perfect(limit(7, rate(100, READ_FOREVER)), 1)
    assert len(invocations(history)) == 7


def test_f_map_renames_what_it_knows() -> None:
    assert fs(quick(f_map({"read": "get"}, sequence(READ, WRITE)))) == ["get", "write"]


# --- time -----------------------------------------------------------------------------------------------------------


def test_rate_is_fixed_and_counts_over_all_threads_together() -> None:
    assert times_ms(perfect(clients(limit(6, rate(500, READ_FOREVER))), 10)) == [0, 2, 4, 6, 8, 10]


def test_a_burst_is_due_at_once_and_the_mean_rate_stays() -> None:
    history = perfect(clients(limit(8, rate(500, READ_FOREVER, burst=3))), 10)
    assert times_ms(history) == dues_ms(history) == [0, 0, 0, 6, 6, 6, 12, 12]


def test_bursts_keep_their_schedule_while_clients_wait_for_answers() -> None:
    """One client whose first op takes a second: all bursts meanwhile were due when they would have been without it."""
    history = simulate(limit(60, clients(rate(100, READ_FOREVER, burst=20))), stalling(1000), 1)
    assert dues_ms(history) == [200.0 * (number // 20) for number in range(60)]
    assert set(times_ms(history)[1:]) == {1000}


def test_a_burst_of_phases_waits_for_clients_and_loses_no_op() -> None:
    source = phases(limit(2, READ_FOREVER), limit(4, READ_FOREVER))
    history = perfect(clients(rate(100, source, burst=3)), 2)
    assert dues_ms(history) == [0, 0, 0, 30, 30, 30]


def dues_ms(history: list[Op]) -> list[float | None]:
    """When the ops were due, in milliseconds."""
    return [None if op.due is None else op.due / MS for op in invocations(history)]


def stalling(length_ms: int) -> Ending:
    """The first op of each thread takes so long, all others are ok at once."""
    return lambda op, n: (length_ms * MS if n == 0 else 0, "ok")


def test_a_schedule_goes_on_while_no_client_is_free_and_is_caught_up_with() -> None:
    history = simulate(limit(700, clients(rate(100, READ_FOREVER))), stalling(5000), 1)
    assert dues_ms(history) == [10 * number for number in range(700)]
    times = times_ms(history)
    assert times.count(5000) == 500, "those that were due in the 5 s meanwhile, and one that is due then"
    assert times[501:] == [10 * number for number in range(501, 700)]


def test_a_random_schedule_goes_on_while_no_client_is_free() -> None:
    alone, late = (
        simulate(limit(300, clients(stagger(0.01, READ_FOREVER))), ending, 1)
        for ending in (stalling(0), stalling(1000))
    )
    assert dues_ms(late) == dues_ms(alone) == times_ms(alone)


def test_nothing_is_due_while_a_source_waits_for_a_time_of_its_own() -> None:
    source = sequence(limit(2, READ_FOREVER), sleep(1), limit(3, READ_FOREVER))
    history = perfect(clients(rate(100, source)), 3)
    assert times_ms(history) == dues_ms(history) == [0, 10, 1020, 1030, 1040]


def test_ops_are_due_while_a_source_waits_for_clients() -> None:
    """The second phase begins when the slow op of the first has ended; its ops were due before."""
    source = phases(limit(2, READ_FOREVER), limit(2, READ_FOREVER))
    history = simulate(clients(rate(100, source)), lambda op, n: (500 * MS if op.process == 0 else 0, "ok"), 2)
    ended = max(op.time / MS for op in history[:4])
    assert ended >= 500
    assert times_ms(history)[2:] == [ended] * 2
    assert dues_ms(history) == [0, 10, 20, 30]


def test_an_op_keeps_the_due_time_of_the_inner_schedule() -> None:
    history = simulate(limit(30, clients(rate(10_000, rate(100, READ_FOREVER)))), stalling(100), 1)
    assert dues_ms(history) == [10 * number for number in range(30)]


def test_what_keeps_no_schedule_makes_up_for_a_short_wait_only_and_its_ops_are_not_due() -> None:
    for length_ms, at_once in ((50, 5), (5000, CATCH_UP_NS // (10 * MS) + 1)):
        history = simulate(limit(40, clients(spaced(0.01, READ_FOREVER))), stalling(length_ms), 1)
        assert times_ms(history).count(length_ms) == at_once
        assert set(dues_ms(history)) == {None}
    faults = simulate(limit(40, nemesis(rate(100, repeat(KILL)))), stalling(5000), 1)
    assert times_ms(faults).count(5000) == CATCH_UP_NS // (10 * MS) + 1
    assert set(dues_ms(faults)) == {None}


def test_stagger_keeps_its_mean_and_its_bounds() -> None:
    times = times_ms(quick(limit(1000, stagger(0.01, READ_FOREVER)), 2))
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert 9 < sum(gaps) / len(gaps) < 11
    assert min(gaps) >= 0
    assert max(gaps) <= 20
    assert max(gaps) - min(gaps) > 15


def test_time_limit_begins_when_it_is_first_asked_and_lets_ops_under_way_end() -> None:
    history = perfect(clients(sequence(sleep(1), time_limit(0.025, READ_FOREVER))), 1)
    assert times_ms(history) == [1000, 1010, 1020]
    assert history[-1].time == 1030 * MS


def test_time_limit_ends_a_generator_that_waits_for_longer() -> None:
    assert times_ms(perfect(sequence(time_limit(0.5, sleep(60)), READ))) == [500]


def test_sleep_begins_after_the_op_before_it_has_ended_on_a_single_thread() -> None:
    history = perfect(nemesis(sequence(KILL, sleep(1), KILL)))
    assert times_ms(history) == [0, 1010]


# --- choice ---------------------------------------------------------------------------------------------------------


def test_mix_draws_evenly_or_by_weight() -> None:
    counts = Counter(fs(quick(limit(900, mix(repeat(READ), repeat(WRITE))))))
    assert 380 < counts["read"] < 520
    counts = Counter(fs(quick(limit(900, mix(repeat(READ), repeat(WRITE), weights=(9, 1))))))
    assert 40 < counts["write"] < 140


def test_mix_ends_when_all_have_ended_and_loses_none_of_their_ops() -> None:
    a, b = limit(20, counting()), limit(5, repeat(READ))
    counts = Counter(fs(imperfect(mix(a, b), 3)))
    assert counts == {"n": 20, "read": 5}


def test_mix_does_not_wait_for_a_drawn_generator_that_is_not_ready() -> None:
    history = perfect(time_limit(0.1, mix(sequence(sleep(60), READ), repeat(WRITE))), 1)
    assert set(fs(history)) == {"write"}
    assert len(fs(history)) == 20  # one client and the nemesis thread, ten rounds of 10 ms


def test_mix_refuses_weights_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="one positive weight for each of its 2"):
        mix(READ, WRITE, weights=(1,))
    with pytest.raises(UsageError):
        mix(READ, WRITE, weights=(1, 0))


def test_any_of_takes_whichever_is_ready_and_starves_none() -> None:
    history = perfect(time_limit(0.2, any_of(rate(20, repeat(READ)), repeat(WRITE))), 1)
    counts = Counter(fs(history))
    assert counts["read"] == 4
    assert counts["write"] > 20
    counts = Counter(fs(quick(limit(100, any_of(repeat(READ), repeat(WRITE))))))
    assert counts == {"read": 50, "write": 50}


def test_beside_ends_with_its_main_generator() -> None:
    history = perfect(beside(clients(limit(5, rate(100, repeat(READ)))), nemesis(rate(50, repeat(KILL)))), 2)
    counts = Counter(fs(history))
    assert counts["read"] == 5
    assert counts["kill"] == 3


def test_beside_goes_on_without_the_other() -> None:
    assert Counter(fs(perfect(beside(limit(5, repeat(READ)), WRITE)))) == {"read": 5, "write": 1}


def test_flip_flop_alternates_and_ends_with_the_first_that_ends() -> None:
    assert fs(quick(flip_flop(repeat(READ), limit(2, repeat(WRITE))))) == ["read", "write", "read", "write", "read"]


# --- threads --------------------------------------------------------------------------------------------------------


def test_clients_and_nemesis_keep_to_their_threads_and_their_streams() -> None:
    source = any_of(clients(limit(20, counting())), nemesis(limit(20, each(lambda ctx: invoke("kill")))))
    history = perfect(source, 3)
    assert {op.process for op in history if op.f == "kill"} == {NEMESIS}
    assert {op.process for op in history if op.f == "n"} == {0, 1, 2}


def test_the_schedule_of_the_nemesis_does_not_depend_on_the_workload() -> None:
    faults = nemesis(limit(10, stagger(0.05, each(lambda ctx: invoke("cut", ctx.rng.below(1000))))))

    def schedule(workload: Generator) -> list[tuple[int, object]]:
        history = perfect(any_of(faults, clients(workload)), 3)
        return [(op.time, op.value) for op in invocations(history) if op.process == NEMESIS]

    few = schedule(limit(3, repeat(READ)))
    many = schedule(limit(300, rate(1000, each(lambda ctx: invoke("w", ctx.rng.below(9))))))
    assert few == many
    assert len(few) == 10


def test_a_generator_for_clients_hears_nothing_of_the_nemesis() -> None:
    heard: list[int] = []

    class Listener:
        def op(self, ctx: Context) -> None:
            return None

        def update(self, ctx: Context, event: Op) -> Listener:
            heard.append(event.process)
            return self

    quick(any_of(nemesis(limit(3, repeat(KILL))), clients(sequence(limit(2, repeat(READ))))))
    clients(Listener()).update(
        Context.initial(2, ("n1",), Streams(1)["w"], Streams(1)["n"]), Op(process=NEMESIS, type="ok", f="kill")
    )
    assert heard == []


def test_reserve_gives_each_its_threads() -> None:
    source = clients(limit(300, reserve((2, repeat(READ)), (3, repeat(WRITE)), rest=counting())))
    history = perfect(source, 10)
    by_f: dict[str, set[int]] = {}
    for op in invocations(history):
        by_f.setdefault(op.f, set()).add(op.process)
    assert by_f == {"read": {0, 1}, "write": {2, 3, 4}, "n": {5, 6, 7, 8, 9}}


def test_reserve_asks_for_more_concurrency_when_threads_run_short() -> None:
    with pytest.raises(UsageError, match="raise --concurrency"):
        quick(clients(reserve((2, READ), (3, WRITE))), 4)


def test_each_thread_gives_every_thread_a_copy() -> None:
    history = perfect(clients(each_thread(sequence(READ, WRITE))), 4)
    for process in range(4):
        assert [op.f for op in invocations(history) if op.process == process] == ["read", "write"]


def test_each_process_starts_anew_for_the_successor_of_a_crashed_process_and_each_thread_does_not() -> None:
    kinds: list[OpType] = ["info", "ok", "ok"]
    history = simulate(clients(each_process(sequence(READ, WRITE))), lambda op, n: (MS, kinds[n]), 1)
    assert [(op.process, op.f) for op in invocations(history)] == [(0, "read"), (1, "read"), (1, "write")]
    history = simulate(clients(each_thread(sequence(READ, WRITE))), lambda op, n: (MS, kinds[n]), 1)
    assert [(op.process, op.f) for op in invocations(history)] == [(0, "read"), (1, "write")]


# --- keys -----------------------------------------------------------------------------------------------------------


def test_sequential_keys_work_on_one_key_after_the_other() -> None:
    history = quick(sequential_keys(range(3), lambda key: limit(2, repeat(READ))))
    assert [op.key for op in invocations(history)] == ["0", "0", "1", "1", "2", "2"]


def test_concurrent_keys_keep_every_group_on_its_own_key() -> None:
    history = perfect(clients(concurrent_keys(2, range(7), lambda key: limit(10, repeat(READ)))), 6)
    counts = Counter(op.key for op in invocations(history))
    assert counts == {str(key): 10 for key in range(7)}
    for key in counts:
        assert len({op.process // 2 for op in invocations(history) if op.key == key}) == 1
    assert overlaps(history) == 6


def test_concurrent_keys_never_end_with_endless_keys_and_use_a_smaller_last_group() -> None:
    history = perfect(clients(limit(200, concurrent_keys(3, itertools.count(), lambda key: limit(5, repeat(READ))))), 8)
    groups = {op.process // 3 for op in invocations(history)}
    assert groups == {0, 1, 2}
    assert {op.process for op in invocations(history)} == set(range(8))


def test_a_generator_of_keys_is_a_value_that_can_be_run_twice() -> None:
    work = concurrent_keys(2, itertools.count(), lambda key: limit(5, mix(repeat(READ), counting())))
    source = clients(limit(50, work))
    first, second = perfect(source, 4), perfect(source, 4)
    assert [(op.process, op.f, op.key) for op in first] == [(op.process, op.f, op.key) for op in second]


def test_events_reach_the_generator_of_their_key_only() -> None:
    history = imperfect(clients(concurrent_keys(2, range(4), lambda key: until_ok(repeat(READ)))), 4)
    for key in "0123":
        of_key = [op for op in history if op.key == key]
        first_ok = next(i for i, op in enumerate(of_key) if op.type == "ok")
        assert all(op.type != "invoke" for op in of_key[first_ok:])


class Hearing:
    """One op, then (if patient) a wait for whatever is under way; notes every completion that it hears of."""

    def __init__(self, heard: list[str | None], patient: bool, asked: bool = False) -> None:
        self.heard = heard
        self.patient = patient
        self.asked = asked

    def op(self, ctx: Context) -> Result:
        if self.asked and not (self.patient and ctx.free != ctx.threads):
            return None
        if self.asked or not ctx.free:
            return PENDING, self
        op = Op(process=ctx.processes[ctx.free_threads[0]], type="invoke", f="read")
        return op, Hearing(self.heard, self.patient, asked=True)

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.type != "invoke":
            self.heard.append(event.key)
        return self


def test_an_op_that_ends_after_its_key_is_not_told_to_the_next_key() -> None:
    heard: dict[str, list[str | None]] = {"0": [], "1": []}
    for keys in (
        concurrent_keys(2, range(2), lambda key: Hearing(heard[key], key == "1")),
        sequential_keys(range(2), lambda key: Hearing(heard[key], key == "1")),
    ):
        assert overlaps(perfect(clients(keys), 2)) == 2
    assert heard == {"0": [], "1": ["1", "1"]}


# --- outcomes -------------------------------------------------------------------------------------------------------


def test_until_ok_repeats_until_the_first_ok() -> None:
    kinds: list[OpType] = ["fail", "info", "fail", "ok", "ok"]
    history = simulate(clients(until_ok(repeat(READ))), lambda op, n: (MS, kinds[n]), 1)
    assert [op.type for op in history if op.type != "invoke"] == kinds[:4]


def test_until_ok_ends_with_its_source() -> None:
    history = simulate(clients(until_ok(repeat(READ, 3))), lambda op, n: (MS, "fail"), 1)
    assert len(invocations(history)) == 3


def test_until_ok_is_not_satisfied_by_ops_of_others() -> None:
    ctx = Context.initial(2, ("n1",), Streams(1)["w"], Streams(1)["n"])
    waiting = until_ok(repeat(READ)).update(ctx, Op(process=1, type="ok", f="read"))
    assert waiting.op(ctx) is not None


def test_final_reads_until_ok_on_every_thread_and_waits_between_attempts() -> None:
    kinds: list[OpType] = ["fail", "info", "ok", "ok"]
    history = simulate(final(READ, retry_s=0.2), lambda op, n: (MS, kinds[n]), 3)
    oks = [op.process % 3 for op in history if op.type == "ok"]
    assert sorted(oks) == [0, 1, 2]
    assert sorted(times_ms(history)) == [0] * 3 + [200] * 3 + [400] * 3


def by_leader(source: Source, leader: int, concurrency: int = 3) -> list[Op]:
    """The history if only ops of one thread are ok, and standbys refuse those of all others."""
    ctx = Context.initial(concurrency, NODES, Streams(1)["w"], Streams(1)["n"])
    remaining, history = generator(source), list[Op]()
    while len(history) < 1000:
        result = remaining.op(ctx)
        if result is None:
            return history
        op, remaining = result
        if isinstance(op, Pending):
            ctx = msgspec.structs.replace(ctx, time_ns=op.until_ns or ctx.time_ns)
            continue
        ok = op.process % concurrency == leader
        done = op.complete("ok") if ok else op.complete("fail", error="standby: READONLY")
        for event in (op, done):
            remaining = remaining.update(ctx, event)
            history.append(event)
    raise AssertionError("it does not end")


def test_final_asks_a_standby_once() -> None:
    history = by_leader(final(READ, retry_s=0.2), leader=1)
    assert [op.process for op in history if op.type == "ok"] == [1]
    assert sorted(op.process for op in history if op.type == "fail") == [0, 2]


def test_what_standbys_refuse_is_asked_elsewhere_until_the_leader_answers() -> None:
    reads = sequence(*(invoke("read", key=str(key)) for key in range(20)))
    assert len({op.key for op in by_leader(clients(reads), leader=2) if op.type == "ok"}) < 20
    history = by_leader(clients(elsewhere(reads)), leader=2)
    assert sorted(int(op.key or "") for op in history if op.type == "ok") == list(range(20))


def test_without_a_leader_nothing_is_asked_for_ever() -> None:
    history = by_leader(clients(elsewhere(once(invoke("read", key="a")))), leader=-1)
    assert [op.type for op in history] == ["invoke", "fail"] * ATTEMPTS_MAX


def test_what_failed_otherwise_is_not_asked_elsewhere() -> None:
    history = simulate(clients(elsewhere(repeat(READ, 3))), lambda op, n: (MS, "fail"), 2)
    assert len(invocations(history)) == 3


def test_final_gives_up_after_its_time() -> None:
    history = simulate(final(READ, retry_s=0.5, timeout_s=2), lambda op, n: (MS, "fail"), 1)
    assert times_ms(history) == [0, 500, 1000, 1500]


# --- the whole ------------------------------------------------------------------------------------------------------


def realistic() -> Generator:
    work = concurrent_keys(
        2,
        itertools.count(),
        lambda key: limit(20, mix(repeat(READ), each(lambda ctx: invoke("write", ctx.rng.below(5))), weights=(1, 2))),
    )
    faults = repeat(sequence(KILL, sleep(0.05), invoke("start"), sleep(0.05)))
    return beside(clients(time_limit(1, stagger(0.002, work))), nemesis(time_limit(1, faults)))


def test_a_history_is_a_function_of_the_seed() -> None:
    assert imperfect(realistic(), 6, seed=7) == imperfect(realistic(), 6, seed=7)
    assert imperfect(realistic(), 6, seed=7) != imperfect(realistic(), 6, seed=8)


def test_a_question_leaves_the_generator_as_it_was() -> None:
    source = realistic()

    def answer() -> object:
        ctx = Context.initial(4, ("n1",), Streams(3)["w"], Streams(3)["n"])
        ctx.time_ns = 5
        result = source.op(ctx)
        assert result is not None
        return result[0]

    assert answer() == answer()


class Promising(msgspec.Struct, frozen=True):
    """Holds a generator to what it said of when it is idle. An op of the nemesis that ends makes that void."""

    source: Generator
    idle_until_ns: int = 0
    kept: list[int] = []

    def op(self, ctx: Context) -> Result:
        result = self.source.op(ctx)
        if ctx.time_ns < self.idle_until_ns:
            assert result is not None
            assert isinstance(result[0], Pending)
            assert result[0].until_ns == self.idle_until_ns
            self.kept.append(ctx.time_ns)
        if result is None:
            return None
        op, after = result
        return op, Promising(after, idle_until(after) if isinstance(op, Pending) else 0, self.kept)

    def update(self, ctx: Context, event: Op) -> Generator:
        void = event.process == NEMESIS
        return Promising(self.source.update(ctx, event), 0 if void else self.idle_until_ns, self.kept)


@pytest.mark.parametrize("seed", range(10))
def test_a_generator_that_says_that_it_is_idle_has_no_op_before_whatever_clients_do(seed: int) -> None:
    work = mix(repeat(READ), each(lambda ctx: invoke("write", ctx.rng.below(5))))
    faults = repeat(sequence(KILL, sleep(0.05), invoke("start"), sleep(0.05)))
    source = beside(clients(time_limit(1, stagger(0.02, work))), nemesis(time_limit(1, spaced(0.1, faults))))
    promising = Promising(source)
    history = imperfect(promising, 6, seed=seed)
    assert len(promising.kept) > 5
    assert history == imperfect(source, 6, seed=seed)


def test_a_generator_that_may_end_with_an_op_of_a_client_does_not_say_that_it_is_idle() -> None:
    for source in (until_ok(rate(1, repeat(READ))), each_thread(rate(1, repeat(READ))), any_of(rate(1, repeat(READ)))):
        ctx = Context.initial(2, ("n1",), Streams(1)["w"], Streams(1)["n"])
        answer = source.op(ctx)
        while answer is not None and isinstance(answer[0], Op):
            answer = answer[1].op(ctx)
        assert answer is not None
        assert idle_until(answer[1]) == 0


def test_a_generator_that_nobody_is_free_for_is_pending() -> None:
    ctx = Context.initial(2, ("n1",), Streams(1)["w"], Streams(1)["n"])
    ctx.free = 0
    for source in (
        once(READ),
        counting(),
        mix(READ, WRITE),
        any_of(READ, WRITE),
        rate(1, READ),
        repeat(READ),
        until_ok(READ),
        each_thread(READ),
        clients(READ),
        nemesis(READ),
        limit(1, READ),
        sequence(READ),
    ):
        result = source.op(ctx)
        assert result is not None
        assert result[0] == PENDING, source
