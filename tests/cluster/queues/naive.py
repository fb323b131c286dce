"""A naive model of a quorum queue, written from QQ-1 to QQ-7 and the facts beside the cases, not from the machine.

Lists are scanned, nothing is fast. Which of several consumers with equal priority gets a message is not fixed by the
items: the model is handed what each consumer got, and says what was wrong about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Step = dict[str, Any]

BY_ID = 10**9
"""Stands for the key of a consumer that is its id."""


@dataclass
class Msg:
    name: str
    expiry: int | None
    high: bool
    index: int
    failed: int = 0
    acquired: int = 0
    notes: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def size(self) -> int:
        return len(self.name)


@dataclass
class Con:
    tag: str
    pid: str
    key: int
    life: str
    mode: dict[str, int]
    priority: int
    credit: int
    count: int
    status: str = "up"
    next_id: int = 0
    held: dict[int, Msg] = field(default_factory=dict[int, Msg])
    former: list[int] = field(default_factory=list[int])
    """Priorities that it had since it got a message last: until it gets one it may keep its place of then."""

    @property
    def places(self) -> list[int]:
        return [self.priority, *self.former]

    @property
    def node(self) -> str:
        return self.pid.split("@")[1]

    @property
    def eligible(self) -> bool:
        return self.status == "up" and self.credit > 0

    @property
    def finished(self) -> bool:
        return not self.held and (self.status == "cancelled" or (self.life == "once" and self.credit == 0))


@dataclass
class Enq:
    next: int = 1
    blocked: bool = False


class Naive:
    """The queue; `step` carries out one step in the notation of cases, and gives what the queue must say.

    Attributes:
        taken: all messages that it ever took, in order.
        fates: what became of each message that left: settled, dropped, purged, dead, and dead letters by reason.
    """

    def __init__(self, config: Step, pids: dict[str, str]) -> None:
        self.config = config
        self.pids = pids
        self.returned: list[Msg] = []
        self.high: list[Msg] = []
        self.normal: list[Msg] = []
        self.turn = 0
        self.consumers: dict[str, Con] = {}
        self.waiting: list[Con] = []
        self.enqueuers: dict[str, Enq] = {}
        self.letters: list[tuple[str, Msg]] = []
        self.worker: tuple[str, int] | None = None
        self.with_worker: dict[int, tuple[str, Msg]] = {}
        self.next_letter = 0
        self.taken: list[str] = []
        self.fates: dict[str, str] = {}
        self.used = config.get("created")
        self.before = False, False  # whether there was a length limit, and whether the queue was below the soft one

    # --- what is there ------------------------------------------------------------------------------------------------

    @property
    def single(self) -> bool:
        return self.config.get("single_active_consumer", False)

    def ready(self) -> list[Msg]:
        """In the order in which they are served: returned first; of the lanes the high one, two of three times."""
        order, high, normal, turn = list(self.returned), list(self.high), list(self.normal), self.turn
        while high or normal:
            order.append(self._pick(high, normal, turn))
            turn = (turn + 1) % 3
        return order

    @staticmethod
    def _pick(high: list[Msg], normal: list[Msg], turn: int) -> Msg:
        third = turn == 2 and high and normal and normal[0].index < high[0].index
        return (normal if third or not high else high).pop(0)

    def pop(self) -> Msg:
        if self.returned:
            return self.returned.pop(0)
        taken = self._pick(self.high, self.normal, self.turn)
        self.turn = (self.turn + 1) % 3
        return taken

    def length(self) -> int:
        return len(self.ready()) + len(self.letters) + len(self.with_worker)

    def size(self) -> int:
        waiting = [msg for _, msg in (*self.letters, *self.with_worker.values())]
        return sum(msg.size for msg in (*self.ready(), *waiting))

    def over(self) -> bool:
        length, size = self.config.get("max_length"), self.config.get("max_bytes")
        return (length is not None and self.length() > length) or (size is not None and self.size() > size)

    def limited(self) -> bool:
        return "max_length" in self.config or "max_bytes" in self.config

    def below(self) -> bool:
        length, size = self.config.get("max_length"), self.config.get("max_bytes")
        short = length is None or self.length() <= int(0.8 * length)
        return self.limited() and short and (size is None or self.size() <= int(0.8 * size))

    def active(self) -> Con | None:
        found = [con for con in self.consumers.values() if con.status in ("up", "quiescing")]
        return min(found, key=lambda con: con.status == "quiescing", default=None)

    # --- a step -------------------------------------------------------------------------------------------------------

    def step(self, step: Step, deliveries: dict[str, list[Step]]) -> Step:
        self.now: int = step.get("ts", 0)
        self.got = {tag: list(messages) for tag, messages in deliveries.items()}
        self.said: dict[str, list[Any]] = {"dead_letters": [], "dlx": [], "sends": [], "cancelled": []}
        self.before = limited, below = self.limited(), self.below()
        self.finishes, self.limits = True, True
        reply = getattr(self, f"do_{step['op']}")(step)
        if self.finishes:
            self.finish()
        if self.limits:
            self.enforce(limited, below)
        assert not any(self.got.values()), f"these were delivered as well: {self.got}"
        return {"reply": reply, **self.said}

    def only(self, finishes: bool = False, limits: bool = False) -> None:
        """The command does not hand out messages, or does not look at limits."""
        self.finishes, self.limits = finishes, limits

    def finish(self) -> None:
        self.activate()
        while True:
            self.expire()
            eligible = [con for con in self.consumers.values() if con.eligible]
            if not eligible or not self.ready():
                break
            self.hand_out(eligible)
        if self.worker is not None and self.config.get("dead_letter") == "at_least_once":
            while self.letters and len(self.with_worker) < self.worker[1]:
                reason, msg = self.letters.pop(0)
                self.with_worker[self.next_letter] = reason, msg
                self.said["dlx"].append((self.next_letter, reason, msg.name, msg.failed))
                self.next_letter += 1

    def hand_out(self, eligible: list[Con]) -> None:
        msg = self.pop()
        tags = [tag for tag, messages in self.got.items() if messages and messages[0]["msg"] == msg.name]
        assert tags, f"{msg.name} is next, and was not delivered"
        con, said = self.consumers[tags[0]], self.got[tags[0]].pop(0)
        assert con in eligible, f"{con.tag} got {msg.name} without credit, or while it was {con.status}"
        others = max(min(each.places) for each in eligible)
        assert max(con.places) >= others, "one of a higher priority could have taken it"
        counts = {"acquired": msg.acquired, "failed": msg.failed, "annotations": msg.notes}
        assert said == {"id": con.next_id, "msg": msg.name, **counts}
        self.give(con, msg)

    def give(self, con: Con, msg: Msg) -> int:
        con.held[con.next_id] = msg
        con.next_id += 1
        con.credit -= 1
        con.former.clear()
        con.count = self.counted(con, 1)
        return con.next_id - 1

    @staticmethod
    def counted(con: Con, more: int) -> int:
        """Counts of version 2 are serial numbers."""
        return (con.count + more) % 2**32 if "credited" in con.mode else con.count + more

    def expire(self) -> None:
        while (ready := self.ready()) and ready[0].expiry is not None and self.now >= ready[0].expiry:
            self.dead(self.pop(), "expired")

    def enforce(self, limited: bool, below: bool) -> None:
        if not self.limited():
            if limited:
                self.unblock()
        elif self.config.get("overflow", "drop_head") == "drop_head":
            while self.over() and self.ready():
                self.dead(self.pop(), "maxlen")
        elif self.over():
            for pid, enq in self.enqueuers.items():
                if not enq.blocked:
                    enq.blocked = True
                    self.said["sends"].append({"to": pid, "queue_status": "reject_publish"})
        elif self.below() and not below:
            self.unblock()

    def unblock(self) -> None:
        for pid, enq in self.enqueuers.items():
            enq.blocked = False
            self.said["sends"].append({"to": pid, "queue_status": "go"})

    def dead(self, msg: Msg, reason: str) -> None:
        strategy = self.config.get("dead_letter", "disabled")
        if strategy == "at_least_once" and reason == "maxlen":
            strategy = "at_most_once"
        self.said["dead_letters"].append((reason, strategy, msg.name, msg.failed))
        if strategy == "at_least_once":
            self.letters.append((reason, msg))
        else:
            self.fates[msg.name] = reason

    # --- consumers ----------------------------------------------------------------------------------------------------

    def activate(self) -> None:
        if not self.single or not self.waiting or self.waiting[0].status != "up":
            return
        active, first = self.active(), self.waiting[0]
        if active is None:
            self.begin(first)
        elif first.priority > active.priority:
            if active.held:
                active.status = "quiescing"
                return
            del self.consumers[active.tag]
            self.begin(first)
            if first.tag != active.tag:
                self.wait(active)

    def begin(self, con: Con) -> None:
        self.waiting.remove(con)
        before = self.consumers.get(con.tag)
        if before is not None:
            before.former.append(before.priority)
            before.life, before.mode, before.priority, before.status = con.life, con.mode, con.priority, "up"
            before.credit = max(0, con.mode.get("prefetch", 0) - len(before.held))
        self.consumers[con.tag] = before or con

    def wait(self, con: Con) -> None:
        self.waiting = [each for each in self.waiting if each.tag != con.tag] + [con]
        self.sort()

    def sort(self) -> None:
        def place(con: Con) -> tuple[int, ...]:
            return (0, -con.priority, -con.credit, con.key) if con.status == "up" else (1,)

        self.waiting.sort(key=place)

    def settle_down(self, con: Con) -> None:
        """A consumer that is finished goes; one that quiesces and has nothing left waits again."""
        if con.finished:
            self.consumers.pop(con.tag, None)
            self.used = self.now
        elif con.status == "quiescing" and not con.held:
            del self.consumers[con.tag]
            con.status = "up"
            if all(each.tag != con.tag for each in self.waiting):
                self.wait(con)
        else:
            self.consumers[con.tag] = con

    def take(self, con: Con, ids: list[int]) -> list[Msg]:
        taken = [con.held.pop(each) for each in dict.fromkeys(ids) if each in con.held]
        if taken and con.life == "auto" and "prefetch" in con.mode:
            con.credit = min(con.mode["prefetch"], con.credit + len(taken))
        return taken

    def give_back(self, con: Con, ids: list[int], failed: bool, notes: Step) -> None:
        limit = self.config.get("delivery_limit", -1)
        for msg in self.take(con, ids):
            msg.acquired += 1
            msg.failed += failed
            msg.notes = msg.notes | notes
            if 0 <= limit < msg.acquired:
                self.dead(msg, "delivery_limit")
            else:
                self.returned.append(msg)

    def by_key(self) -> list[Con]:
        return sorted(self.consumers.values(), key=lambda con: (con.key, con.tag))

    # --- commands -----------------------------------------------------------------------------------------------------

    def do_enqueue(self, step: Step) -> Any:
        pid = step["pid"]
        if pid is not None:
            enq = self.enqueuers.setdefault(pid, Enq())
            if step["seq"] != enq.next:
                self.only()
                return "not_enqueued" if step["seq"] > enq.next else "ok"
            enq.next += 1
        lives = [ttl for ttl in (step.get("ttl"), self.config.get("message_ttl")) if ttl is not None]
        expiry = self.now + max(1, min(lives)) if lives else None
        high = step.get("priority", 4) > 4
        self.taken.append(step["msg"])
        msg = Msg(step["msg"], expiry, high, step["index"], step.get("failed", 0))
        (self.high if high else self.normal).append(msg)
        return "ok"

    def do_register_enqueuer(self, step: Step) -> Any:
        self.enqueuers.setdefault(step["pid"], Enq())
        self.only()
        return "reject_publish" if self.over() and self.config.get("overflow") == "reject_publish" else "ok"

    def do_attach(self, step: Step) -> Any:
        tag, mode = step["consumer"], step["mode"]
        known = self.consumers.get(tag)
        waits = next((con for con in self.waiting if con.tag == tag), None)
        key = (known or waits or Con("", "", step["index"], "", {}, 0, 0, 0)).key
        active = self.active()
        goes_on = not self.single or active is None or (active is known and active.status == "up")
        if known is not None and goes_on:
            known.former.append(known.priority)
            known.life, known.mode, known.priority, known.status = step["life"], mode, step["priority"], "up"
            known.credit = max(0, mode.get("prefetch", 0) - len(known.held))
            con = known
            self.settle_down(con)
        else:
            credit, count = mode.get("prefetch", 0), mode.get("credited", 0)
            con = Con(tag, self.pids[tag], key, step["life"], mode, step["priority"], credit, count)
            self.wait(con) if self.single else self.settle_down(con)
        about = {"key": "id" if key == BY_ID else key, "next_msg_id": con.next_id, "credit": con.credit}
        return {"attached": about | {"delivery_count": con.count, "num_checked_out": len(con.held)}}

    def do_dequeue(self, step: Step) -> Any:
        self.only()
        if self.single:
            return {"error": "unsupported_single_active_consumer"}
        self.used = self.now
        if not self.ready() or step["consumer"] in self.consumers:
            return {"dequeued": None}
        self.limits = True
        self.expire()
        if not self.ready():
            return {"dequeued": None}
        con = Con(step["consumer"], self.pids[step["consumer"]], BY_ID, "once", {"prefetch": 1}, 0, 1, 0)
        msg = self.pop()
        self.give(con, msg)
        counts = {"acquired": msg.acquired, "failed": msg.failed, "annotations": msg.notes}
        if step["settlement"] == "settled":
            self.fates[msg.name] = "settled"
            self.finish()
        else:
            self.consumers[con.tag] = con
        return {"dequeued": {"id": 0, "msg": msg.name, "ready": len(self.ready()), **counts}}

    def do_cancel(self, step: Step) -> Any:
        tag = step["consumer"]
        con, waited = self.consumers.get(tag), [each for each in self.waiting if each.tag == tag]
        if con is None and not waited:
            self.only()
            return {"error": "consumer_not_found"}
        self.said["cancelled"].append(tag)
        self.waiting = [each for each in self.waiting if each.tag != tag]
        if con is None:
            return {"cancelled": {}}
        if step["op"] == "remove":
            self.end(con, failed=False)
            return {"cancelled": {}}
        con.life, con.credit, con.status = "once", 0, "cancelled"
        self.settle_down(con)
        key = "id" if con.key == BY_ID else con.key
        return {"cancelled": {"key": key, "num_checked_out": len(con.held)} if con.held else {}}

    do_remove = do_cancel

    def end(self, con: Con, failed: bool) -> None:
        self.give_back(con, sorted(con.held), failed, {})
        del self.consumers[con.tag]
        self.used = self.now

    def of(self, step: Step) -> Con | None:
        con = self.consumers.get(step["consumer"])
        self.only(con is not None, con is not None)
        return con

    def do_settle(self, step: Step) -> Any:
        if con := self.of(step):
            settled = self.take(con, step["ids"])
            self.fates |= {msg.name: "settled" for msg in settled}
            if settled:
                self.settle_down(con)
        return "ok"

    def do_return(self, step: Step) -> Any:
        if con := self.of(step):
            self.give_back(con, step["ids"], False, {})
            self.settle_down(con)
        return "ok"

    def do_discard(self, step: Step) -> Any:
        return self.refuse(step, True, {})

    def refuse(self, step: Step, failed: bool, notes: Step) -> Any:
        if con := self.of(step):
            refused = self.take(con, step["ids"])
            for msg in refused:
                msg.acquired += 1
                msg.failed += failed
                msg.notes = msg.notes | notes
                self.dead(msg, "rejected")
            if refused:
                self.settle_down(con)
        return "ok"

    def do_modify(self, step: Step) -> Any:
        if step["undeliverable_here"]:
            return self.refuse(step, step["delivery_failed"], step["annotations"])
        if con := self.of(step):
            self.give_back(con, step["ids"], step["delivery_failed"], step["annotations"])
            self.settle_down(con)
        return "ok"

    def do_requeue(self, step: Step) -> Any:
        con = self.of(step)
        if con is None or step["id"] not in con.held:
            self.only()
            return "ok"
        (msg,) = self.take(con, [step["id"]])
        msg.acquired += 1
        msg.index, msg.high = step["index"], False
        self.normal.append(msg)
        self.settle_down(con)
        return "ok"

    def do_credit(self, step: Step) -> Any:
        tag, drain = step["consumer"], step["drain"]
        con = self.consumers.get(tag)
        waits = con is None
        con = con or next((each for each in self.waiting if each.tag == tag), None)
        self.only()
        if con is None:
            return "ok"
        asked = (step["delivery_count"] + step["credit"] - con.count) % 2**32 if "credited" in con.mode else None
        if asked is None:
            asked = max(0, step["delivery_count"] + step["credit"] - con.count)
        elif asked >= 2**31:
            asked = 0
        con.credit = asked
        if not waits:
            self.finish()
            self.enforce(*self.before)
        if drain:
            con.count, con.credit = self.counted(con, con.credit), 0
        if waits:
            self.sort()
        said = {"consumer": tag, "delivery_count": con.count, "credit": con.credit, "drain": drain}
        self.said["sends"].append({"to": con.pid, "credit_reply": said | {"available": 0 if waits else self.available}})
        return "ok"

    @property
    def available(self) -> int:
        return len(self.ready())

    def do_purge(self, step: Step) -> Any:
        self.only(limits=True)
        purged = self.ready()
        self.fates |= {msg.name: "purged" for msg in purged}
        self.returned, self.high, self.normal, self.turn = [], [], [], 0
        return {"purged": len(purged)}

    def do_update_config(self, step: Step) -> Any:
        before, self.config = self.config, step["config"]
        self.used = self.config.get("created")
        if before.get("dead_letter") != self.config.get("dead_letter"):
            lost = [msg for _, msg in (*self.letters, *self.with_worker.values())]
            self.fates |= {msg.name: "given up" for msg in lost}
            self.letters, self.with_worker, self.worker = [], {}, None
        return "ok"

    def do_expire(self, step: Step) -> Any:
        return "ok"

    def do_down(self, step: Step) -> Any:
        pid = step["pid"]
        if step["reason"] == "noconnection":
            self.suspect(pid.split("@")[1])
            return "ok"
        self.gone(pid)
        return "ok"

    def do_purge_nodes(self, step: Step) -> Any:
        self.only()
        for node in step["nodes"]:
            consumers = [con.pid for con in reversed(self.by_key())]
            others = sorted({con.pid for con in self.waiting} | self.enqueuers.keys())
            for pid in dict.fromkeys((*consumers, *others)):
                if pid.endswith(f"@{node}"):
                    self.gone(pid)
        return "ok"

    def gone(self, pid: str) -> None:
        self.enqueuers.pop(pid, None)
        self.said["cancelled"] += [con.tag for con in self.waiting if con.pid == pid]
        self.waiting = [con for con in self.waiting if con.pid != pid]
        for con in self.by_key():
            if con.pid == pid:
                self.end(con, failed=True)
                self.said["cancelled"].append(con.tag)

    def suspect(self, node: str) -> None:
        for con in self.by_key():
            if con.node != node or (not self.single and con.status != "up"):
                continue
            self.give_back(con, sorted(con.held), True, {})
            if self.single:
                del self.consumers[con.tag]
                if con.status != "cancelled" and all(each.tag != con.tag for each in self.waiting):
                    self.waiting.append(con)
                self.used = self.now
            con.status = "suspected_down"
        for con in self.waiting:
            con.status = "suspected_down" if con.node == node else con.status
        self.sort()
        self.used = self.used if self.single else self.now

    def do_nodeup(self, step: Step) -> Any:
        for con in self.by_key():
            if con.node == step["node"] and con.status != "cancelled":
                con.status = "up"
                self.settle_down(con)
        for con in self.waiting:
            con.status = "up" if con.node == step["node"] else con.status
        self.sort()
        return "ok"

    def do_dlx_attach(self, step: Step) -> Any:
        if self.config.get("dead_letter") == "at_least_once":
            self.letters = [self.with_worker[each] for each in sorted(self.with_worker)] + self.letters
            self.with_worker, self.worker, self.next_letter = {}, (step["pid"], step["prefetch"]), 0
        return "ok"

    def do_dlx_settle(self, step: Step) -> Any:
        for each in step["ids"]:
            if each in self.with_worker:
                self.fates[self.with_worker.pop(each)[1].name] = "confirmed"
        return "ok"

    def deletes(self, now: int) -> bool:
        """Whether the queue is to be deleted at this time."""
        expires = self.config.get("expires")
        if expires is None or self.used is None or now <= self.used + expires:
            return False
        return all(con.status == "suspected_down" for con in self.consumers.values())
