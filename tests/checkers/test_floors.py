"""What a run must have done to pass: floors that follow from its length, rate, clients and op timeout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from splitbrain.checkers.coverage import Coverage
from splitbrain.checkers.coverage.options import Load
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.history import HARNESS, NEMESIS, Op, OpType

LOAD: dict[str, Any] = {
    "rate": 10.0,
    "time_limit_s": 30.0,
    "concurrency": 3,
    "op_timeout_s": 2.0,
    "recovery_s": 5.0,
    "nodes": ["n1", "n2", "n3"],
}
"""So 300 ops are due, and three clients can do 450: 45 must be answered, and of each function 2 % be ok, or 6."""

NODES = ("n1", "n2", "n3")

Change: TypeAlias = Callable[[int, float, int], dict[str, Any]]
Chosen: TypeAlias = Callable[[int, float, int], bool]


def no_change(_number: int, _at_s: float, _process: int) -> dict[str, Any]:
    return {}


class Run:
    """A healthy run of ten ops a second, three clients, a node each; `change` says how an op ends instead."""

    def __init__(self, length_s: float = 30.0, rate: float = 10.0) -> None:
        self.length_s = length_s
        self.rate = rate
        self.events: list[tuple[float, int, OpType, str, Any, str | None, str | None]] = []

    def op(
        self, at_s: float, process: int, f: str, how: OpType | None, value: Any = None, answer: Any = None, **more: Any
    ) -> None:
        node = NODES[process % 3]
        self.events.append((at_s, process, "invoke", f, value, node, None))
        if how is not None:
            took_s = more.get("took_s", 0.05)
            self.events.append((at_s + took_s, process, how, f, answer, node, more.get("error")))

    def load(self, change: Change = no_change, final: int = 6) -> Run:
        """A write, a read, a write, ...; the final phase begins 2 s after the heal."""
        for number in range(int(self.length_s * self.rate)):
            at_s, process = number / self.rate, number % 3
            read = number % 2 == 1
            told: dict[str, Any] = {"f": "read" if read else "write", "how": "ok", "value": None if read else number}
            told["answer"] = number - 1 if read else number
            told.update(change(number, at_s, process))
            self.op(at_s, process, told.pop("f"), told.pop("how"), told.pop("value"), told.pop("answer"), **told)
        for number in range(final):
            self.op(self.length_s + 2.1 + number / 10, number % 3, "read", "ok", None, 6)
        return self

    def judge(self, **options: Any) -> Verdict:
        notes: list[tuple[float, int, OpType, str, Any, str | None, str | None]] = [
            (0.0, HARNESS, "info", "phase", {"phase": "faults"}, None, None),
            (self.length_s, HARNESS, "info", "phase", {"phase": "heal"}, None, None),
            (self.length_s + 1, HARNESS, "info", "recovered", {"seconds": 1.0}, None, None),
            (self.length_s + 2, HARNESS, "info", "phase", {"phase": "final"}, None, None),
        ]
        ordered = sorted([*notes, *self.events], key=lambda event: event[0])
        ops = [
            Op(index=index, time=round(at * 1e9), process=who, type=how, f=f, value=value, node=node, error=error)
            for index, (at, who, how, f, value, node, error) in enumerate(ordered)
        ]
        return Coverage().check(to_table(ops), {"fs": ["write", "read"], "load": LOAD, **options})


def codes(verdict: Verdict) -> list[str]:
    return [reason.code.value for reason in verdict.inconclusive]


def test_a_healthy_run_passes_and_states_its_floors() -> None:
    verdict = Run().load().judge()
    assert verdict.inconclusive == ()
    assert verdict.figures["floors"] == {"possible": 300, "answered": 45, "ok": {"write": 6, "read": 6}}


def test_floors_grow_with_length_rate_and_clients_and_shrink_with_a_long_op_timeout() -> None:
    def answered(**load: Any) -> int:
        verdict = Run(60.0).load().judge(load={**LOAD, "time_limit_s": 60.0, **load})
        return verdict.figures["floors"]["answered"]

    assert answered() == 2 * 45
    assert answered(rate=5.0) == 45
    assert answered(rate=1000.0) == answered(rate=2000.0) == 135  # what three clients can do
    assert answered(rate=1000.0, concurrency=6) == 270
    assert answered(op_timeout_s=10.0) == 27
    assert answered(op_timeout_s=10.0, concurrency=1) == 20  # never fewer


def test_a_long_op_timeout_does_not_excuse_a_system_from_answering() -> None:
    def floors(op_timeout_s: float) -> dict[str, Any]:
        load = {**LOAD, "time_limit_s": 600.0, "rate": 100.0, "op_timeout_s": op_timeout_s}
        return Run(600.0).load().judge(load=load).figures["floors"]

    assert floors(10.0) == floors(30.0) == floors(1000.0)
    assert floors(1000.0)["answered"] == 270  # three clients, an answer a second


def test_an_op_in_progress_is_no_sign_of_life() -> None:
    run = Run()
    run.load(every(lambda n, at, p: at >= 2, **REFUSED))
    for process in range(3):
        run.op(1.95, process + 3, "write", "ok", process, process, took_s=27.0)
    assert "mostly-silent" in codes(run.judge())


def test_a_fault_that_lasts_longer_than_the_load_does_not_make_the_system_silent() -> None:
    run = Run().load()
    run.length_s = 100.0  # the load's 30 s, and 70 s in which a fault was being brought about
    assert "mostly-silent" not in codes(run.judge())


def test_a_share_that_is_no_whole_number_is_rounded_up() -> None:
    floors = Run(65.0).load().judge(load={**LOAD, "time_limit_s": 65.0}).figures["floors"]
    assert floors == {"possible": 650, "answered": 98, "ok": {"write": 7, "read": 7}}  # of 97.5 and 6.5


def test_no_more_is_possible_than_in_the_time_that_the_test_was_to_last() -> None:
    load = Load(rate=10.0, time_limit_s=30.0, concurrency=3, op_timeout_s=2.0)
    assert load.possible(20.0) == 200
    assert load.possible(90.0) == load.possible(30.0) == 300


def every(chosen: Chosen, **told: Any) -> Change:
    return lambda number, at_s, process: dict(told) if chosen(number, at_s, process) else {}


INFO = {"how": "info", "error": "timeout", "answer": None}
REFUSED = {"how": "fail", "error": "connection refused", "answer": None}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (every(lambda n, at, p: True, **INFO), "nothing-ok"),
        (every(lambda n, at, p: True, **REFUSED), "nothing-ok"),
        (every(lambda n, at, p: n % 2 == 0, **INFO), "never-ok"),
        (every(lambda n, at, p: n % 2 == 0 and n > 6, **INFO), "too-few-ops"),
        (every(lambda n, at, p: n > 40, **REFUSED), "too-few-ops"),
        (every(lambda n, at, p: at > 14, **REFUSED), "mostly-silent"),
        (every(lambda n, at, p: at > 20, **REFUSED), "stopped-answering"),
        (every(lambda n, at, p: 3 < at < 12, **INFO), "stopped-answering"),
        (every(lambda n, at, p: p == 1, **REFUSED), "node-silent"),
        (every(lambda n, at, p: n % 2 == 1, answer=None), "reads-saw-nothing"),
        (every(lambda n, at, p: n % 2 == 1, answer=-5), "reads-saw-nothing"),
    ],
    ids=[
        "nothing answers",
        "everything fails",
        "one function dead",
        "one function dies",
        "dead after a moment",
        "dead from the middle",
        "dead in the last third",
        "dead for a while without a fault",
        "one node silent",
        "reads of nothing",
        "reads of one value that no client wrote",
    ],
)
def test_a_run_below_a_floor_is_inconclusive_and_says_why(change: Change, code: str) -> None:
    verdict = Run().load(change, final=0 if code == "reads-saw-nothing" else 6).judge()
    assert code in codes(verdict)


def test_the_sentence_tells_what_was_done_what_is_needed_and_what_to_change() -> None:
    verdict = Run().load(every(lambda n, at, p: n > 40, **REFUSED)).judge()
    [reason] = [each for each in verdict.inconclusive if "were answered" in each.sentence]
    assert "only 41 of 300 ops were answered in the faults phase; at least 45 are needed: 15% of the 300" in str(reason)
    assert "10 ops/s for 30 s, 3 clients with an op timeout of 2 s" in reason.sentence
    assert "--time-limit" in reason.advice


@pytest.mark.parametrize("answer", [None, [], {}])
def test_final_reads_that_find_nothing_prove_nothing(answer: Any) -> None:
    run = Run().load(final=0)
    for number in range(6):
        run.op(32.1 + number / 10, number % 3, "read", "ok", None, answer)
    assert codes(run.judge()) == ["reads-saw-nothing"]


@pytest.mark.parametrize(
    ("how", "nodes", "expected"),
    [("info", (0, 1, 2), "never-ok"), ("fail", (0, 1, 2), "never-ok"), ("info", (1,), "node-silent")],
)
def test_ops_after_all_faults_must_be_answered_on_every_node(
    how: OpType, nodes: tuple[int, ...], expected: str
) -> None:
    run = Run().load(final=0)
    for number in range(12):
        dead = number % 3 in nodes
        run.op(32.1 + number / 10, number % 3, "read", how if dead else "ok", None, None if dead else 6)
    assert expected in codes(run.judge())


def test_a_final_phase_without_an_op_is_no_final_phase() -> None:
    assert codes(Run().load(final=0).judge()) == ["not-exercised"]


def test_a_function_that_was_never_invoked_is_missed_whatever_the_author_says_of_floors() -> None:
    for options in ({}, {"floors": False}, {"min_ok": {"write": 1}}):
        verdict = Run().load().judge(fs=["write", "read", "cas"], **options)
        assert codes(verdict) == ["not-exercised"], options


def test_an_author_may_ask_for_less_but_not_for_nothing() -> None:
    thin = every(lambda n, at, p: n > 40, **REFUSED)
    assert codes(Run().load(thin).judge(floors=False)) == []
    dead = every(lambda n, at, p: True, **REFUSED)
    assert codes(Run().load(dead, final=0).judge(floors=False)) == ["nothing-ok"]


def test_refusals_by_the_state_are_answers() -> None:
    """Most attempts on a lock that is held are refused: the lock answered."""
    held = every(lambda n, at, p: n % 2 == 0 and n % 10 != 0, how="fail", error="held")
    assert codes(Run().load(held).judge()) == []


def fault(run: Run, begin_s: float, end_s: float, **state: Any) -> None:
    """A fault that leaves the nodes in this state while it lasts."""
    calm: dict[str, Any] = {"down": [], "paused": [], "cut": []}
    start, stop = {"fault": "kill", "action": "start"}, {"fault": "kill", "action": "stop"}
    run.events.append((begin_s, NEMESIS, "invoke", "kill", start, None, None))
    run.events.append((begin_s + 0.01, NEMESIS, "ok", "kill", {**start, **calm, **state, "target": "n2"}, None, None))
    run.events.append((end_s, NEMESIS, "invoke", "start", stop, None, None))
    run.events.append((end_s + 0.01, NEMESIS, "ok", "start", {**stop, **calm}, None, None))


@pytest.mark.parametrize(
    "state", [{"down": ["n2"]}, {"paused": ["n2"]}, {"cut": [["n2", "n1"], ["n3", "n2"]]}, {"cut": [["n2", "n1"]]}]
)
def test_a_node_that_faults_kept_out_of_action_may_be_silent(state: dict[str, Any]) -> None:
    run = Run().load(every(lambda n, at, p: p == 1, **REFUSED))
    fault(run, 0.1, 29.0, **state)
    assert codes(run.judge(faults=["kill"])) == []


@pytest.mark.parametrize(
    "state",
    [
        {"cut": [["n1", "n3"], ["n3", "n1"], ["n1", "n2"], ["n2", "n1"]]},
        {"cut": [["n3", "n1"], ["n3", "n2"]]},
        {"down": ["n1"]},
    ],
)
def test_a_node_that_belongs_to_the_only_majority_left_may_not_be_silent(state: dict[str, Any]) -> None:
    run = Run().load(every(lambda n, at, p: p == 1, **REFUSED))  # n2's client
    fault(run, 0.1, 29.0, **state)
    assert "node-silent" in codes(run.judge(faults=["kill"]))


def test_where_no_majority_is_left_no_node_need_answer() -> None:
    run = Run().load(every(lambda n, at, p: p == 1, **REFUSED))
    fault(run, 0.1, 29.0, down=["n1", "n3"])
    assert "node-silent" not in codes(run.judge(faults=["kill"]))


def test_a_node_that_a_fault_kept_out_for_a_moment_may_not() -> None:
    run = Run().load(every(lambda n, at, p: p == 1, **REFUSED))
    fault(run, 0.1, 5.0, down=["n2"])
    assert codes(run.judge(faults=["kill"])) == ["node-silent"]


@pytest.mark.parametrize(("until_s", "expected"), [(19.0, []), (21.0, []), (25.6, ["stopped-answering"])])
def test_an_outage_under_a_fault_and_the_recovery_from_it_are_no_silence(until_s: float, expected: list[str]) -> None:
    run = Run().load(every(lambda n, at, p: 10 < at < until_s, **REFUSED))
    fault(run, 10.0, 15.0, down=["n1", "n2"])
    assert [code for code in codes(run.judge(faults=["kill"])) if code == "stopped-answering"] == expected


def test_a_history_without_a_load_is_measured_by_what_was_invoked() -> None:
    assert codes(Run().load().judge(load=None, fs=[])) == []
    dying = every(lambda n, at, p: n > 40, **REFUSED)
    assert "too-few-ops" in codes(Run().load(dying).judge(load=None, fs=[]))


@pytest.mark.parametrize(("length_s", "rate"), [(10.0, 1.0), (30.0, 0.5), (5.0, 3.0)])
def test_a_run_that_asked_for_next_to_nothing_proves_nothing(length_s: float, rate: float) -> None:
    load = {**LOAD, "rate": rate, "time_limit_s": length_s}
    verdict = Run(length_s, rate).load().judge(load=load)
    assert codes(verdict) == ["too-few-ops"]
    assert "at least 20 are needed: fewer than 20 prove nothing" in verdict.inconclusive[0].sentence
    assert codes(Run(length_s, rate).load().judge(load=load, floors=False)) == []


def test_a_node_that_no_client_talks_to_was_not_tested() -> None:
    verdict = Run().load().judge(load={**LOAD, "nodes": [*NODES, "n4"]})
    assert codes(verdict) == ["node-not-asked"]
    assert "n4 received no op in the faults phase" in verdict.inconclusive[0].sentence
    assert "--concurrency" in verdict.inconclusive[0].advice


def test_a_node_whose_only_client_is_stuck_was_not_tested() -> None:
    """Two ops that never end are too few to call it silent, and no reason to pass."""
    run = Run()
    for number in range(300):
        process = number % 3
        if process != 1 or number in (1, 4):
            read, silent = number % 2 == 1, process == 1
            value = number - 1 if read else number
            told: tuple[Any, ...] = ("info", None) if silent else ("ok", value)
            took_s = 14.0 if silent else 0.05
            at_s = 0.1 if number == 1 else 15.0 if number == 4 else number / 10
            run.op(
                at_s, process, "read" if read else "write", told[0], None if read else number, told[1], took_s=took_s
            )
    for number in range(6):
        run.op(32.1 + number / 10, number % 3, "read", "ok", None, 6)
    verdict = run.judge()
    assert codes(verdict) == ["node-not-asked"]
    assert "n2 received 2 ops in the faults phase and answered 0" in verdict.inconclusive[0].sentence


def test_what_clients_do_by_themselves_is_no_answer_of_the_system() -> None:
    """As the holders of lease locks, who believe that they hold them for as long as nobody answers."""
    dead = every(lambda n, at, p: at > 10 and n % 2 == 0, **INFO)
    run = Run().load(dead, final=0)
    run.op(32.1, 0, "write", "ok", 1, 1)
    assert codes(run.judge(reads=[])) == []
    assert codes(run.judge(reads=[], local=["read"])) == ["stopped-answering", "mostly-silent"]


def test_a_fault_that_only_ops_without_a_node_met_met_no_load() -> None:
    run = Run().load(every(lambda n, at, p: n % 2 == 0 and 9 < at < 21, f="read", value=None, answer=6))
    fault(run, 10.0, 20.0, down=["n1"])
    assert codes(run.judge(faults=["kill"])) == []
    assert "fault-met-no-load" in codes(run.judge(faults=["kill"], local=["read"], reads=[]))


@pytest.mark.parametrize("name", ["rate", "concurrency"])
def test_a_load_that_cannot_be_is_refused(name: str) -> None:
    for wrong in (0, -5):
        with pytest.raises(UsageError, match=rf"checker coverage: .*{name} must be more than 0"):
            Run().load().judge(load={**LOAD, name: wrong})


def reading(answer: Callable[[int], Any], written: Callable[[int], Any] = lambda number: number) -> Verdict:
    """A run whose reads, the final ones too, answer so, and whose writes carry so."""

    def change(number: int, _at_s: float, _process: int) -> dict[str, Any]:
        read = number % 2 == 1
        return {"answer": answer(number)} if read else {"value": written(number), "answer": written(number)}

    run = Run().load(change, final=0)
    for number in range(6):
        run.op(32.1 + number / 10, number % 3, "read", "ok", None, answer(number))
    return run.judge()


def test_reads_that_all_find_the_same_elements_saw_writes() -> None:
    assert codes(reading(lambda _: [0, 2])) == []


@pytest.mark.parametrize("blank", [False, 0, 0.0, ""])
def test_a_blank_answer_is_a_write_only_where_it_was_written(blank: Any) -> None:
    def answer(number: int) -> Any:
        return blank if number % 4 == 1 else None

    assert codes(reading(answer, lambda number: number + 1)) == ["reads-saw-nothing"]
    assert codes(reading(answer, lambda _: blank)) == []


def test_what_a_compare_and_set_carries_was_written() -> None:
    assert codes(reading(lambda _: 5, lambda number: [number, 5])) == []
    assert codes(reading(lambda _: 5, lambda number: [number, 6])) == ["reads-saw-nothing"]


def test_a_fault_that_could_not_be_verified_is_not_one_that_took_place() -> None:
    run = Run().load()
    fault(run, 10.0, 15.0, down=["n1"])
    place = next(i for i, event in enumerate(run.events) if event[1] == NEMESIS and event[2] == "ok")
    at_s, who, _, f, value, node, _ = run.events[place]
    run.events[place] = (at_s, who, "info", f, value, node, "the process runs on")
    assert codes(run.judge(faults=["kill"])) == ["fault-not-verified", "no-fault"]


@pytest.mark.parametrize(
    ("load", "expected"),
    [({}, ["stopped-answering"]), ({"op_timeout_s": 4.0}, []), ({"rate": 1.0}, [])],
    ids=["a fast system", "ops may take long", "ops come seldom"],
)
def test_how_long_a_silence_must_last_follows_from_the_load(load: dict[str, Any], expected: list[str]) -> None:
    run = Run().load(every(lambda n, at, p: 3 < at < 9.5, **INFO))
    assert codes(run.judge(load={**LOAD, **load})) == expected


@pytest.mark.parametrize(("gap_ms", "expected"), [(2000, ["machine-busy"]), (1500, [])])
def test_a_controller_that_stood_still_for_a_twentieth_of_the_run_is_no_judge(gap_ms: int, expected: list[str]) -> None:
    run = Run().load()
    run.events.append((20.0, HARNESS, "info", "stall", {"gap_ms": gap_ms}, None, None))
    assert codes(run.judge()) == expected


def test_an_op_of_unknown_fate_is_no_answer_whatever_its_error_says() -> None:
    unknown = every(lambda n, at, p: n > 40, how="info", error="held", answer=None)
    assert "too-few-ops" in codes(Run().load(unknown).judge())


def test_clients_that_ask_no_node_for_a_while_meet_no_silence() -> None:
    run = Run().load(every(lambda n, at, p: 9 < at < 21, f="read", value=None, answer=6), final=0)
    run.op(32.1, 0, "write", "ok", 1, 1)
    assert codes(run.judge(reads=[], local=["read"])) == []


def _led_by_one(share: float) -> Change:
    """One node leads and answers this share of its ops; seven times out of nine another node is asked."""

    def change(number: int, _at_s: float, _process: int) -> dict[str, Any]:
        if number % 9 // 2:
            return {"how": "fail", "error": "standby: n1 leads"}
        return {} if number % 100 < 100 * share else {"how": "info", "error": "timeout"}

    return change


def test_what_standbys_refuse_is_no_op_that_could_have_been_answered() -> None:
    """Clients are spread over the nodes: the one that leads gets a share of the ops, and answers no more than these."""
    led: dict[str, Any] = {"load": {**LOAD, "rate": 30.0, "concurrency": 9, "nodes": []}}
    assert not Run(rate=30.0).load(_led_by_one(0.6)).judge(**led).inconclusive


def test_nodes_that_all_refuse_as_standbys_are_no_excuse_for_silence() -> None:
    led: dict[str, Any] = {"load": {**LOAD, "rate": 30.0, "concurrency": 9, "nodes": []}}

    def change(number: int, at_s: float, _process: int) -> dict[str, Any]:
        return {} if number % 50 < 2 else {"how": "fail", "error": "standby: who leads?"}

    found = Run(rate=30.0).load(change).judge(**led).inconclusive
    assert [reason for reason in found if "without 67% that standbys refused" in reason.sentence]


def test_ops_that_are_done_without_a_node_are_no_part_of_what_standbys_refuse() -> None:
    led: dict[str, Any] = {"load": {**LOAD, "rate": 30.0, "concurrency": 9, "nodes": []}}

    def change(number: int, _at_s: float, _process: int) -> dict[str, Any]:
        if number % 2:
            return {}  # a read, which is local
        if number % 6:
            return {"how": "fail", "error": "standby: n1 leads"}
        return {} if number % 120 == 0 else {"how": "info", "error": "timeout"}

    found = Run(rate=30.0).load(change).judge(**led, local=["read"], reads=[]).inconclusive
    assert [reason for reason in found if "without 67% that standbys refused" in reason.sentence]
