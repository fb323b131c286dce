"""The checker of topologies: each anomaly by hand, and no false alarm on histories of a correct broker."""

from __future__ import annotations

import random
from collections.abc import Sequence
from time import process_time
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from splitbrain.checkers.topology import TopologyChecker
from splitbrain.checkers.topology.structure import id_of, needs, routes_of
from splitbrain.checkers.topology.timelines import NEVER, Call, holds
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.history import HARNESS, Op
from tests.checkers.support import Script

V, U = ["vhost", "v"], ["user", "u"]
P = ["permission", "v", "u"]
X, Q = ["exchange", "v", "x", "direct"], ["queue", "v", "q"]
B = ["binding", "v", "x", "queue", "q", "k", 0]
ALL = sorted([V, U, P, X, Q, B])


def judge(ops: Sequence[Op], options: dict[str, Any] | None = None) -> Verdict:
    script = Script()
    script.ops = list(ops)
    return TopologyChecker().check(script.table(), options or {})


def projected(tree: list[Any], tables: list[Any] | None = None, queues: Sequence[str] = ("q",)) -> dict[str, Any]:
    routes = [["v", "x", "k", list(queues)]] if X in tree else []
    return {"tree": tree, "tables": tree if tables is None else tables, "routes": routes}


def made() -> Script:
    """All is declared, and seen."""
    script = Script()
    for process, entity in enumerate((V, U, P, X, Q)):
        script.call(process, "declare", entity)
    script.call(0, "bind", B)
    script.call(1, "look", result=ALL)
    script.call(2, "project", result=projected(ALL))
    return script


def test_what_was_declared_and_is_shown_in_the_tree_in_projections_and_by_routes_passes() -> None:
    verdict = judge(made().ops, {"again": [V, U, P, X, Q]})
    assert verdict.valid == "true"
    assert verdict.sentence.startswith("2 reads of all entities")
    assert not verdict.inconclusive


def test_a_system_that_never_shows_projections_is_judged_by_its_entities_and_one_that_does_has_to_show_some() -> None:
    def after(*answers: Any) -> Verdict:
        script = made()
        script.ops = script.ops[:-2]  # without what `project` answered
        for answer in answers:
            script.call(2, "project", result=answer)
        return judge(script.ops)

    assert after(None, None).valid == "true"
    assert not after(None).inconclusive
    assert "does not show what its nodes look into" in after(None).sentence
    assert after().inconclusive
    assert after(projected([]), projected([]), projected([]), projected(ALL)).inconclusive
    assert not after(projected([]), projected(ALL), projected(ALL), projected(ALL)).inconclusive


@pytest.mark.parametrize("missing", [V, U, X, Q])
def test_an_entity_without_what_it_needs_dangles(missing: list[Any]) -> None:
    script = made()
    script.event(3, "invoke", "delete", missing)  # of unknown outcome
    script.call(4, "look", result=[entity for entity in ALL if entity != missing])
    verdict = judge(script.ops)
    assert verdict.valid == "false"
    assert verdict.anomalies[0] == "dangling"
    assert "which it needs" in verdict.sentence


def test_projections_that_differ_from_the_tree_of_the_same_moment_are_found() -> None:
    for tables in ([*ALL, ["queue", "v", "r"]], [entity for entity in ALL if entity != P]):
        script = made()
        script.call(3, "project", result=projected(ALL, sorted(tables)))
        assert judge(script.ops).anomalies == ("projection",)


@pytest.mark.parametrize("queues", [[], ["q", "r"]])
def test_a_route_that_the_bindings_do_not_give_is_found(queues: list[str]) -> None:
    script = made()
    script.call(3, "project", result=projected(ALL, queues=queues))
    verdict = judge(script.ops)
    assert verdict.anomalies == ("route",)
    assert "to 'q'" in verdict.sentence


def test_an_acknowledged_binding_that_is_not_shown_is_lost_unless_something_may_have_removed_it() -> None:
    rest = [entity for entity in ALL if entity != B]
    for removal in (None, ("unbind", B), ("delete", ["exchange", "v", "x", "direct"]), ("delete", V)):
        script = made()
        if removal is not None:
            script.event(3, "invoke", *removal)
        script.call(4, "look", result=rest)
        assert judge(script.ops).anomalies == (() if removal else ("lost",))


def test_a_binding_that_comes_back_with_its_queue_is_undead() -> None:
    script = made()
    script.call(3, "delete", Q)
    script.call(3, "declare", Q)
    script.call(4, "look", result=ALL)
    verdict = judge(script.ops)
    assert verdict.anomalies == ("undead",)
    assert "was removed, nothing made it again" in verdict.sentence


def test_a_binding_that_was_being_made_while_its_queue_was_deleted_may_have_come_after_it() -> None:
    script = made()
    script.event(0, "invoke", "bind", B)
    script.call(3, "delete", Q)
    script.call(3, "declare", Q)
    script.event(0, "ok", "bind", B)
    script.call(4, "look", result=ALL)
    assert judge(script.ops).valid == "true"


@pytest.mark.parametrize(("error", "anomalies"), [("precondition_failed: it differs", ("poisoned",)),
                                                  ("not_found: vhost 'v'", ("poisoned",)),
                                                  ("unavailable: no leader", ())])  # fmt: skip
def test_a_declaration_that_is_refused_without_reason_is_found(error: str, anomalies: tuple[str, ...]) -> None:
    script = made()
    script.call(3, "declare", ["queue", "v", "r"], how="fail", error=error)
    assert judge(script.ops).anomalies == anomalies


def test_a_refusal_while_what_is_needed_may_be_gone_is_no_finding() -> None:
    script = made()
    script.event(4, "invoke", "delete", V)
    script.call(3, "declare", ["queue", "v", "r"], how="fail", error="not_found: vhost 'v'")
    assert judge(script.ops).valid == "true"


def test_without_an_answer_with_bindings_and_projections_nothing_is_proven() -> None:
    script = Script()
    script.call(0, "declare", V)
    script.call(1, "look", result=[V])
    assert judge(script.ops).valid == "unknown"


def test_a_name_that_was_not_declared_again_makes_the_run_inconclusive() -> None:
    script = made()
    script.call(2, "unbind", B)
    script.call(1, "declare", X)
    script.event(3, "invoke", "declare", Q)
    assert not judge(script.ops, {"again": [X]}).inconclusive
    verdict = judge(script.ops, {"again": [X, Q]})
    assert verdict.valid == "true"
    assert "queue 'q' in vhost 'v'" in verdict.inconclusive[0].sentence


def test_an_option_that_it_does_not_know_is_refused() -> None:
    with pytest.raises(UsageError, match="again"):
        judge(made().ops, {"more": 1})


NAMES = [V, ["vhost", "w"], U, P, X, ["exchange", "v", "f", "fanout"], Q, ["queue", "w", "q"]]
BINDINGS = [["binding", "v", x, "queue", "q", key, n] for x in ("x", "f") for key in ("k", "l") for n in (0, 1)]


def settled(there: dict[tuple[Any, ...], list[Any]]) -> dict[tuple[Any, ...], list[Any]]:
    while True:
        left = {found: entity for found, entity in there.items() if all(need in there for need in needs(found))}
        if left == there:
            return there
        there = left


def correct_history(seed: int, steps: int = 150) -> list[Op]:
    """Clients of a correct broker: each op takes effect at one moment between its invocation and its completion."""
    draws = random.Random(seed)
    script, there = Script(), dict[tuple[Any, ...], list[Any]]()
    free, waiting, done = list(range(5)), list[tuple[int, str, Any]](), list[tuple[int, str, Any, str, Any]]()

    def carry_out(process: int, f: str, entity: Any) -> None:
        nonlocal there
        result, how = entity, "ok"
        if f in ("declare", "bind"):
            if all(need in there for need in needs(id_of(entity))):
                there[id_of(entity)] = entity
            else:
                how = "fail"
        elif f in ("delete", "unbind"):
            there.pop(id_of(entity), None)
            there = settled(there)
        else:
            tree = sorted(there.values())
            result = tree
            if f == "project":
                asked = [[*each[1:3], key] for each in tree if each[0] == "exchange" for key in ("k", "l")]
                result = {"tree": tree, "tables": tree, "routes": routes_of(tree, asked)}
        done.append((process, f, entity, how, result))

    for entity in NAMES:
        script.call(0, "declare", entity)
        there[id_of(entity)] = entity
    for _ in range(steps):
        step = draws.random()
        if step < 0.4 and free:
            f = draws.choice(["declare"] * 4 + ["bind"] * 3 + ["unbind", "delete", "look", "project"])
            of = BINDINGS if f in ("bind", "unbind") else NAMES
            entity = None if f in ("look", "project") else draws.choice(of)
            process = free.pop(draws.randrange(len(free)))
            script.event(process, "invoke", f, entity)
            waiting.append((process, f, entity))
        elif step < 0.7 and waiting:
            carry_out(*waiting.pop(draws.randrange(len(waiting))))
        elif done:
            process, f, entity, how, result = done.pop(draws.randrange(len(done)))
            if draws.random() < 0.1:
                script.event(process, "info", f, entity)
            else:
                error = "not_found: what it needs" if how == "fail" else None
                script.event(process, "fail" if how == "fail" else "ok", f, result, error=error)
            free.append(process)
    return script.ops


def test_no_history_of_a_correct_broker_is_called_wrong() -> None:
    verdicts = [judge(correct_history(seed)) for seed in range(60)]
    assert [verdict.sentence for verdict in verdicts if verdict.valid == "false"] == []
    assert sum(verdict.valid == "true" for verdict in verdicts) > 20


def test_most_entities_that_are_taken_out_of_or_put_into_a_read_are_missed() -> None:
    """How sharp the rules are: of reads that are wrong in one entity, most are found out."""
    found = total = 0
    for seed in range(30):
        ops = correct_history(seed)
        draws = random.Random(seed)
        looks = [at for at, op in enumerate(ops) if op.f == "look" and op.type == "ok"]
        if not looks:
            continue
        at = draws.choice(looks)
        value: Any = list(ops[at].value)  # pyright: ignore[reportArgumentType]
        entity = draws.choice(NAMES)
        changed = [each for each in value if each != entity] if entity in value else [*value, entity]
        wrong = [*ops]
        wrong[at] = structs.replace(ops[at], value=sorted(changed))
        total += 1
        found += judge(wrong).valid == "false"
    assert found > total / 2


# --- queues of connections, exchanges that delete themselves, headers, policies --------------------------------------

MINE = ["exclusive", "v", "m", "c1"]
SELF = ["exchange", "v", "s", "fanout", True]
SB = ["binding", "v", "s", "queue", "q", "", 0]


def claimed() -> Script:
    """The same with a queue of connection c1, claimed by process 0."""
    script = made()
    script.call(0, "claim", ["v", "m"], "c1")
    script.call(1, "look", result=sorted([*ALL, MINE]))
    return script


def test_db_6_a_queue_of_a_connection_that_is_shown_until_the_connection_ends_passes() -> None:
    script = claimed()
    script.call(0, "disconnect", result="c1")
    script.call(1, "look", result=ALL)
    assert judge(script.ops).valid == "true"


def test_db_6_a_queue_that_outlives_its_connection_is_undead() -> None:
    script = claimed()
    script.call(0, "disconnect", result="c1")
    script.call(1, "look", result=sorted([*ALL, MINE]))
    verdict = judge(script.ops)
    assert verdict.anomalies == ("undead",)
    assert "queue 'm' of connection 'c1'" in verdict.sentence


def test_db_6_a_queue_whose_connection_is_well_must_not_go() -> None:
    script = claimed()
    script.call(1, "look", result=ALL)
    script.call(0, "declare", X)
    assert judge(script.ops).anomalies == ("lost",)


def test_db_6_a_connection_of_which_nothing_more_is_heard_may_have_ended() -> None:
    """Its node started anew, and removed the queue; the client has not tried again."""
    script = claimed()
    script.call(1, "look", result=ALL)
    assert judge(script.ops).valid == "true"


OWNED: list[Any] = ["c1", [["v", "m"]]]
NOTHING: list[Any] = ["c1", []]


def test_db_6_a_queue_that_is_there_as_long_as_its_connection_passes() -> None:
    script = claimed()
    script.call(0, "own", result=OWNED)
    script.call(0, "disconnect", result="c1")
    script.call(0, "own", result=[None, []])
    script.call(0, "claim", ["v", "m"], "c2")
    script.call(0, "own", result=["c2", [["v", "m"]]])
    verdict = judge(script.ops)
    assert verdict.valid == "true"
    assert verdict.figures["saw_owned"] == 2


def test_db_6_a_queue_that_is_gone_though_its_connection_answers_has_vanished() -> None:
    script = claimed()
    script.call(0, "own", result=NOTHING)
    verdict = judge(script.ops)
    assert verdict.anomalies == ("vanished",)
    assert "queue 'm' of connection 'c1'" in verdict.sentence


@pytest.mark.parametrize("how", ["ok", "info"])
@pytest.mark.parametrize("entity", [["vhost", "v"], ["queue", "v", "m"]])
def test_db_6_it_has_not_vanished_if_it_may_have_been_deleted_with_its_vhost_or_by_name(entity: Any, how: Any) -> None:
    script = claimed()
    script.call(1, "delete", entity, how=how)
    script.call(0, "own", result=NOTHING)
    assert "vanished" not in judge(script.ops).anomalies


def test_db_6_what_another_connection_has_or_what_is_not_known_shows_nothing() -> None:
    script = claimed()
    script.call(0, "own", result=[None, []])
    script.call(0, "own", result=["c2", []])
    script.call(0, "own", result=None)
    script.call(0, "own", how="fail", error="no_leader: n1 knew none")
    assert judge(script.ops).valid == "true"


def test_db_6_a_queue_may_still_be_being_claimed() -> None:
    script = made()
    script.event(0, "invoke", "claim", ["v", "m"])
    script.call(1, "own", result=NOTHING)
    script.event(0, "ok", "claim", "c1")
    assert judge(script.ops).valid == "true"


@pytest.mark.parametrize("f", ["own", "look"])
def test_db_5_queues_go_once_a_member_has_left_though_its_process_may_answer_for_a_while(f: str) -> None:
    for left in (True, False):
        script = claimed()
        if left:
            script.event(-1, "info", "leave", ["n1"])
        script.call(0, f, result=NOTHING if f == "own" else ALL)
        script.call(0, "declare", X)
        assert (judge(script.ops).valid == "true") == left


@pytest.mark.parametrize("how", ["fail", "info"])
def test_db_6_a_connection_may_end_once_an_op_of_its_process_was_not_ok(how: Any) -> None:
    script = claimed()
    script.call(0, "declare", X, how=how, error="no_leader: n1 knew none" if how == "fail" else None)
    script.call(1, "look", result=ALL)
    assert judge(script.ops).valid == "true"


@pytest.mark.parametrize("how", ["info", "fail", None])
def test_db_6_a_connection_may_have_ended_since_its_disconnect_was_invoked(how: Any) -> None:
    """The queue goes and the answer is lost: the client gives it up after others have seen that, or never."""
    script = claimed()
    script.event(0, "invoke", "disconnect")
    script.call(1, "look", result=ALL)
    if how is not None:
        script.event(0, how, "disconnect", error="timeout: n1 passed it on")
    assert judge(script.ops).valid == "true"


def test_a_claim_of_unknown_outcome_may_have_made_a_queue_of_any_connection() -> None:
    script = made()
    script.call(0, "claim", ["v", "m"], how="info")
    script.call(1, "look", result=sorted([*ALL, ["exclusive", "v", "m", "c7"]]))
    assert judge(script.ops).valid == "true"


def test_a_queue_that_is_refused_for_a_connection_that_has_ended_is_locked() -> None:
    for ended in (True, False):
        script = claimed()
        if ended:
            script.call(0, "disconnect", result="c1")
        script.call(2, "claim", ["v", "m"], how="fail", error="resource_locked: queue 'm'")
        assert judge(script.ops).anomalies == (("locked",) if ended else ())


def refused(script: Script, at_s: float) -> None:
    """Another connection claims the queue, and is refused."""
    script.event(2, "invoke", "claim", ["v", "m"], time_s=at_s)
    script.event(2, "fail", "claim", ["v", "m"], time_s=at_s + 0.1, error="resource_locked: queue 'm'")


@pytest.mark.parametrize("how", ["ok", "info"])
def test_a_queue_of_connections_that_all_ended_long_ago_is_stranded(how: Any) -> None:
    """The claim, or the op after it, has an unknown outcome: its connection is closed then."""
    for late_s, found in ((29.0, ()), (31.0, ("stranded",))):
        script = made()
        script.call(0, "claim", ["v", "m"], result="c1" if how == "ok" else None, how=how)
        if how == "ok":
            script.call(0, "own", how="info")
        ended_s = script.ops[-1].time / 1e9
        script.event(HARNESS, "info", "recovered", {"seconds": 1.0}, time_s=ended_s)
        refused(script, ended_s + late_s)
        assert judge(script.ops).anomalies == found


@pytest.mark.parametrize("spoil", ["not healed", "never usable", "healed late", "open", "fail", "another one", "name"])
def test_a_queue_is_not_stranded_while_a_connection_may_have_it_or_a_fault_may_be_to_blame(spoil: str) -> None:
    script = made()
    script.call(0, "claim", ["v", "m"], how="info")
    if spoil == "open":
        script.call(1, "claim", ["v", "m"], result="c2")
    elif spoil == "fail":
        script.call(1, "claim", ["v", "m"], result="c2")
        script.call(1, "own", how="fail", error="no_leader: n1 knew none")
    elif spoil == "another one":
        script.event(3, "invoke", "claim", ["v", "m"])
    healed_s = script.ops[-1].time / 1e9 + (40 if spoil == "healed late" else 0)
    if spoil != "not healed":
        seconds = None if spoil == "never usable" else 1.0
        script.event(HARNESS, "info", "recovered", {"seconds": seconds}, time_s=healed_s)
    if spoil == "name":
        script.event(2, "invoke", "claim", ["v", "q"], time_s=60)
        script.event(2, "fail", "claim", ["v", "q"], time_s=60, error="resource_locked: queue 'q'")
    else:
        refused(script, 60)
    wanted = ("locked",) if spoil == "name" else ()
    assert judge(script.ops).anomalies == wanted


class Connections:
    """A correct broker of two vhosts: queues of connections, which also end when nobody is looking.

    Attributes:
        vhosts: those that are there.
        queues: owner by vhost and name.
        owners: by process; it is None where its connection owns nothing yet, and missing where that is broken.
        ended: owners whose connections have ended, and whose queues may still be there.
    """

    def __init__(self, draws: random.Random) -> None:
        self.draws = draws
        self.vhosts = {"v": True, "w": True}
        self.queues: dict[tuple[str, str], str] = {}
        self.owners: dict[int, str | None] = dict.fromkeys(range(5))
        self.ended: list[str] = []
        self.names = 0

    def breaks(self, process: int) -> None:
        """The connection of a process ends; its queues go later."""
        owner = self.owners.pop(process, None)
        if owner is not None:
            self.ended.append(owner)

    def forgets(self) -> None:
        """A connection that ended is noticed."""
        if self.ended:
            self.removes(self.ended.pop(self.draws.randrange(len(self.ended))))

    def removes(self, owner: str) -> None:
        self.queues = {at: of for at, of in self.queues.items() if of != owner}

    def carries_out(self, process: int, f: str, asked: Any) -> tuple[str, Any, str | None]:
        """How an op ends, with which value and error."""
        if process not in self.owners:
            return "fail", asked, "unavailable: the connection is broken"
        owner = self.owners[process]
        match f:
            case "declare" | "delete":
                self.vhosts[asked[1]] = f == "declare"
                self.queues = {at: of for at, of in self.queues.items() if self.vhosts[at[0]]}
                return "ok", asked, None
            case "claim":
                if not self.vhosts[asked[0]]:
                    return "fail", asked, "not_found: vhost"
                if owner is None:
                    self.names += 1
                    owner = self.owners[process] = f"c{self.names}"
                of = self.queues.setdefault(tuple(asked), owner)
                return ("ok", owner, None) if of == owner else ("fail", asked, "resource_locked: queue")
            case "disconnect":
                if owner is not None:
                    self.removes(owner)
                    self.owners[process] = None
                return "ok", owner, None
            case "own":
                return "ok", [owner, sorted([v, q] for (v, q), of in self.queues.items() if of == owner)], None
            case _:
                there = [["vhost", v] for v, is_there in self.vhosts.items() if is_there]
                return "ok", sorted([*there, *(["exclusive", v, q, of] for (v, q), of in self.queues.items())]), None


def history_of_connections(seed: int, steps: int = 400) -> list[Op]:
    """Clients of a correct broker, whose connections end in every way."""
    draws = random.Random(seed)
    script, broker = Script(), Connections(draws)
    free, waiting, done = list(range(5)), list[tuple[int, str, Any]](), list[tuple[int, str, Any, str | None, str]]()
    for v in ("v", "w"):
        script.call(0, "declare", ["vhost", v])
    for _ in range(steps):
        step = draws.random()
        if step < 0.35 and free:
            f = draws.choice(
                ["claim"] * 4 + ["own"] * 4 + ["look"] * 2 + ["disconnect", "declare", "declare", "delete"]
            )
            asked = {"claim": [draws.choice("vw"), draws.choice("mn")]}.get(f)
            asked = ["vhost", draws.choice("vw")] if f in ("declare", "delete") else asked
            process = free.pop(draws.randrange(len(free)))
            script.event(process, "invoke", f, asked)
            waiting.append((process, f, asked))
        elif step < 0.65 and waiting:
            process, f, asked = waiting.pop(draws.randrange(len(waiting)))
            how, value, error = broker.carries_out(process, f, asked)
            done.append((process, f, value, error, how))
        elif step < 0.93 and done:
            process, f, value, error, how = done.pop(draws.randrange(len(done)))
            how = "info" if process not in broker.owners and how == "ok" else how  # no answer comes over it
            how = "info" if draws.random() < 0.04 else how
            event: Any = how
            script.event(process, event, f, None if how == "info" else value, error=error)
            if how != "ok":
                broker.breaks(process)
                broker.owners[process] = None
            free.append(process)
        elif step < 0.96:
            broker.breaks(draws.randrange(5))
        else:
            broker.forgets()
    return script.ops


def test_no_history_of_connections_of_a_correct_broker_is_called_wrong() -> None:
    """Which has claims that are lost with a vhost, connections that end unseen, and answers that never come."""
    verdicts = [judge(history_of_connections(seed)) for seed in range(300)]
    assert [verdict.sentence for verdict in verdicts if verdict.valid == "false"] == []
    assert sum(bool(verdict.figures["saw_owned"]) for verdict in verdicts) > 200


def test_most_queues_that_are_taken_out_of_what_a_connection_owns_are_missed() -> None:
    """How sharp the rule is: of answers that lack a queue, most are found out."""
    found = total = 0
    for seed in range(60):
        ops = history_of_connections(seed)
        owned = [at for at, op in enumerate(ops) if op.f == "own" and op.type == "ok" and op.value[1]]  # pyright: ignore
        for at in owned[-1:]:
            value: Any = ops[at].value
            wrong = [*ops]
            wrong[at] = structs.replace(ops[at], value=[value[0], value[1][1:]])
            total += 1
            found += "vanished" in judge(wrong).anomalies
    assert found > total / 2 > 20


def with_self() -> Script:
    script = made()
    script.call(0, "declare", SELF)
    script.call(1, "look", result=sorted([*ALL, SELF]))
    script.call(0, "bind", SB)
    return script


def test_db_2_an_exchange_that_deletes_itself_goes_with_its_last_binding_and_is_left_over_else() -> None:
    script = with_self()
    script.call(0, "unbind", SB)
    script.call(1, "look", result=ALL)
    assert judge(script.ops).valid == "true", "one that was never bound may stay, too"
    script.call(1, "look", result=sorted([*ALL, SELF]))
    verdict = judge(script.ops)
    assert verdict.anomalies == ("left-over",)
    assert "without a binding" in verdict.sentence


def test_db_2_one_that_may_have_been_declared_anew_is_not_left_over() -> None:
    script = with_self()
    script.call(0, "unbind", SB)
    script.event(5, "invoke", "declare", SELF)  # of unknown outcome
    script.call(1, "look", result=sorted([*ALL, SELF]))
    assert judge(script.ops).valid == "true"


def test_db_2_one_that_keeps_a_binding_must_not_go() -> None:
    script = with_self()
    script.call(1, "look", result=ALL)
    assert "lost" in judge(script.ops).anomalies


def test_a_headers_exchange_leads_by_the_numbers_of_bindings_and_a_policy_needs_its_vhost() -> None:
    there = [V, Q, ["exchange", "v", "h", "headers"]]
    for number, queues in ((0, ["q"]), (1, [])):
        bound = [*there, ["binding", "v", "h", "queue", "q", "any", number]]
        assert routes_of(bound, [["v", "h", "k"]]) == [["v", "h", "k", queues]]
    assert needs(("policy", "v", "p")) == needs(("exclusive", "v", "m", "c1")) == (("vhost", "v"),)


def test_db_2_an_exchange_that_deletes_itself_goes_when_the_only_exchange_that_it_is_bound_to_does() -> None:
    first, second = ["exchange", "v", "a", "fanout", True], ["exchange", "v", "b", "fanout", True]
    script = Script()
    for entity in (V, Q, first, second):
        script.call(0, "declare", entity)
    for binding in (["binding", "v", "a", "exchange", "b", "", 0], ["binding", "v", "b", "queue", "q", "", 0]):
        script.call(0, "bind", binding)
    script.call(0, "look", result=[V, Q])
    assert judge(script.ops).anomalies == ("lost",)
    script.ops.pop()
    script.ops.pop()
    script.call(0, "unbind", ["binding", "v", "b", "queue", "q", "", 0])
    script.call(0, "look", result=[V, Q])
    assert judge(script.ops).valid != "false"


def test_an_exchange_is_refused_with_reason_if_one_of_another_type_may_be_there() -> None:
    script = made()
    script.call(0, "declare", [*X[:3], "topic"], how="fail", error="precondition_failed: it differs")
    script.call(0, "look", result=ALL)
    assert judge(script.ops).valid == "true"


NONSENSE: list[tuple[str, Any, Any]] = [
    ("declare", 5, None),
    ("declare", [], None),
    ("bind", B[:-1], None),
    ("declare", ["queue", "v", {"name": "q"}], None),
    ("claim", ["v"], "c"),
    ("look", None, 7),
    ("look", None, [[]]),
    ("look", None, [["exchange", "v", "x"]]),
    ("project", None, {"tree": [], "tables": []}),
    ("project", None, {"tree": [], "tables": [["binding", "v"]], "routes": []}),
    ("own", None, ["c", "x0"]),
]


@pytest.mark.parametrize(("f", "asked", "answer"), NONSENSE)
def test_a_value_that_is_none_of_its_op_is_refused_in_words(f: str, asked: Any, answer: Any) -> None:
    script = made()
    script.call(0, f, asked, answer)
    with pytest.raises(HistoryFormatError, match=r"op \d+"):
        judge(script.ops)


def test_when_an_entity_is_certainly_there_is_what_each_pair_of_calls_says() -> None:
    def held(setting: list[Call], undoing: list[Call], begin: int, end: int) -> bool:
        return any(
            call.is_certain
            and call.complete < begin
            and all(other.complete < call.invoke or other.invoke > end for other in undoing)
            for call in setting
        )

    rng = random.Random("pairs of calls")
    seen: set[bool] = set()
    for _ in range(300):
        ends = [sorted(rng.sample(range(40), 2)) for _ in range(12)]
        some = [Call(begin, NEVER if rng.random() < 0.2 else end) for begin, end in ends]
        at, last = sorted(rng.sample(range(13), 2))
        intervals = np.array(ends[at:last], dtype=np.int64)
        found = holds(some[:at], some[last:], intervals[:, 0], intervals[:, 1])
        expected = [held(some[:at], some[last:], *each) for each in ends[at:last]]
        assert found.tolist() == expected
        seen.update(expected)
    assert len(seen) == 2


def test_thousands_of_changes_of_few_entities_cost_little() -> None:
    script = Script()
    for entity in (V, X, Q):
        script.call(0, "declare", entity)
    for number in range(6000):
        script.call(0, "bind", B)
        if number % 10 == 0:
            script.call(0, "look", result=[V, X, Q, B])
        script.call(0, "unbind", B)
    script.call(0, "look", result=[V, X, Q])
    began_s = process_time()
    assert judge(script.ops).valid != "false"
    assert process_time() - began_s < 2


@pytest.mark.parametrize("again", [5, [5], [[]], [["queue", "v", {"name": "q"}]]])
def test_what_has_to_be_declared_again_must_be_entities(again: Any) -> None:
    with pytest.raises(UsageError, match="again must be a list of entities"):
        judge(made().ops, {"again": again})
