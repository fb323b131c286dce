"""What a member does about effects of its machine, alone: against a simple model (RA-23, RA-24)."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.cluster.executor import Action, Executor, LookAt, LookAtClient, StartTimer, StartTimerAt, StopTimer
from splitbrain.cluster.machine import (
    AppendCommand,
    AttachWorker,
    ClientDown,
    DemonitorClient,
    DemonitorNode,
    ForgetQueue,
    MachineEffect,
    MonitorClient,
    MonitorNode,
    NodeDown,
    NodeUp,
    PublishDeadLetters,
    PutIntoQueue,
    ReadLog,
    ReleaseCursor,
    SendToClient,
    SetTimer,
    SetTimerAt,
    Timeout,
    WantConfiguration,
    WriteCheckpoint,
)
from splitbrain.cluster.tree import encode_command
from splitbrain.cluster.wire import ClientAddress

names = st.sampled_from(["a", "b"])
CLIENTS = [ClientAddress(node, 1, number) for node in ("a", "b") for number in (1, 2)]
clients = st.sampled_from(CLIENTS)
effects: st.SearchStrategy[MachineEffect] = st.one_of(
    st.builds(SetTimer, names, st.one_of(st.none(), st.integers(1, 9))),
    st.builds(SetTimerAt, names, st.integers(101, 109)),
    st.builds(MonitorNode, names),
    st.builds(DemonitorNode, names),
    st.builds(MonitorClient, clients),
    st.builds(DemonitorClient, clients),
    st.just(ReadLog((4,), lambda _: (AppendCommand(b"read"),))),
    st.builds(AppendCommand, st.just(b"x")),
    st.builds(
        SendToClient,
        st.builds(ClientAddress, st.sampled_from(["n1", "n2", "n3"]), st.just(1), st.just(1)),
        st.binary(max_size=1),
        st.booleans(),
    ),
    st.builds(ReleaseCursor, st.integers(1, 9)),
    st.just(WriteCheckpoint()),
    st.just(AttachWorker("w", b"attach")),
    st.just(PublishDeadLetters("w", "q", ())),
)
monitors: st.SearchStrategy[MachineEffect] = st.one_of(
    st.builds(MonitorNode, names), st.builds(MonitorClient, clients), st.builds(DemonitorClient, clients)
)
role = st.tuples(st.just("role"), st.booleans())
links = st.tuples(st.just("link"), names, st.booleans())
steps = st.one_of(
    st.tuples(st.just("applied"), st.integers(1, 9), st.lists(effects, max_size=4)),
    st.tuples(st.just("begin"), st.lists(effects, max_size=4)),
    role,
    links,
    st.tuples(st.just("time"), names),
)
steps_of_monitors = st.one_of(
    st.tuples(st.just("applied"), st.just(9), st.lists(monitors, max_size=4)),
    role,
    links,
    st.tuples(st.just("client leaves"), clients),
    st.tuples(st.just("look again")),
    st.tuples(st.just("late word of a client"), clients),
)


class Shell:
    """Carries out actions: runs timers, and keeps what is asked of the log and of snapshots."""

    def __init__(self) -> None:
        self.timers: dict[str, int] = {}
        self.links = {"a": True, "b": True}
        self.gone: set[ClientAddress] = set()
        self.executor = Executor("n1", 3, lambda node: node in ("n1", "n2"))
        self.sent: list[SendToClient] = []
        self.log: list[bytes] = []
        self.written: list[MachineEffect] = []

    def act(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case StartTimer(name, due_ms) | StartTimerAt(name, due_ms):
                    self.timers[name] = due_ms
                case StopTimer(name):
                    del self.timers[name]
                case LookAt(node):
                    self.act(self.executor.node_changed(node, is_up=self.links[node]))
                case LookAtClient(client) if not self.links[client.node]:
                    self.act(self.executor.client_down(client, "no_connection"))
                case LookAtClient(client):
                    if client in self.gone:
                        self.act(self.executor.client_down(client, "gone"))
                case AppendCommand(data):
                    self.log.append(data)
                case SendToClient():
                    self.sent.append(action)
                case ReadLog(_, then):
                    self.act(self.executor.read(then(())))
                case (
                    AttachWorker()
                    | PublishDeadLetters()
                    | ReleaseCursor()
                    | WriteCheckpoint()
                    | PutIntoQueue()
                    | WantConfiguration()
                    | ForgetQueue()
                ):
                    self.written.append(action)


class Model:
    """The same, said as simply as possible."""

    def __init__(self) -> None:
        self.leads = False
        self.timers: dict[str, int] = {}
        self.links = {"a": True, "b": True}
        self.thought_up: dict[str, bool] = {}
        self.monitored: dict[ClientAddress, None] = {}
        self.gone: set[ClientAddress] = set()
        self.log: list[bytes] = []
        self.sent: list[SendToClient] = []
        self.written: list[MachineEffect] = []

    def carry_out_all(self, effects: list[MachineEffect]) -> None:
        for effect in effects if self.leads else ():
            self.note(effect)
        for effect in effects:
            self.carry_out(effect)

    def note(self, effect: MachineEffect) -> None:
        """What the entry monitors in the end; only then does the leader look."""
        match effect:
            case MonitorNode(node):
                self.thought_up.setdefault(node, True)
            case DemonitorNode(node):
                self.thought_up.pop(node, None)
            case MonitorClient(client):
                self.monitored[client] = None
            case DemonitorClient(client):
                self.monitored.pop(client, None)
            case _:
                pass

    def carry_out(self, effect: MachineEffect) -> None:  # noqa: C901 - a case for each effect
        match effect:
            case ReleaseCursor() | WriteCheckpoint() | PutIntoQueue() | WantConfiguration() | ForgetQueue():
                self.written.append(effect)
            case SendToClient() if effect.local and effect.client.node in ("n1", "n2"):
                self.sent += [effect] if effect.client.node == "n1" else []
            case _ if not self.leads:
                pass
            case SetTimer(name, delay_ms):
                self.timers.pop(name, None)
                if delay_ms is not None:
                    self.timers[name] = delay_ms
            case SetTimerAt(name, at_ms):
                self.timers[name] = at_ms
            case MonitorNode(node):
                self.look(node)
                self.look_for_all(node)
            case MonitorClient(client):
                self.look_for(client)
            case DemonitorNode() | DemonitorClient():
                pass
            case AttachWorker() | PublishDeadLetters():
                self.written.append(effect)
            case AppendCommand() | ReadLog():
                self.log.append(b"read" if isinstance(effect, ReadLog) else effect.data)
            case SendToClient():
                self.sent.append(effect)

    def look_for(self, client: ClientAddress) -> None:
        is_up = self.links[client.node]
        if client in self.monitored and (client in self.gone or not is_up):
            del self.monitored[client]
            self.log.append(encode_command(ClientDown(client, "gone" if is_up else "no_connection")))

    def look_for_all(self, node: str | None = None) -> None:
        for client in list(self.monitored):
            if node is None or (node == client.node and not self.links[node]):
                self.look_for(client)

    def look(self, node: str) -> None:
        is_up = self.links[node]
        if self.thought_up.get(node, is_up) != is_up:
            self.thought_up[node] = is_up
            self.log.append(encode_command(NodeUp(node) if is_up else NodeDown(node)))


@given(st.lists(steps, max_size=40))
def test_ra23_a_leader_does_what_its_machine_asks_for_and_a_follower_only_what_concerns_its_disk(
    story: list[Any],
) -> None:
    follow(story)


@settings(max_examples=400)
@given(st.lists(steps_of_monitors, max_size=40))
def test_ra24_a_leader_says_once_what_became_of_what_is_monitored(story: list[Any]) -> None:
    follow([("role", True), *story])


def follow(story: list[Any]) -> None:
    shell, model = Shell(), Model()
    for step in story:
        match step:
            case ("applied", index, its_effects):
                shell.act(shell.executor.applied(index, its_effects))
                if index > 3:
                    model.carry_out_all(its_effects)
            case ("begin", its_effects) if model.leads:
                shell.act(shell.executor.begin(its_effects))
                model.carry_out_all(its_effects)
            case ("role", leads):
                shell.act(shell.executor.role_changed(leads=leads))
                model.leads = leads
                model.timers, model.thought_up, model.monitored = {}, {}, {}
            case ("link", node, is_up):
                shell.links[node] = model.links[node] = is_up
                shell.act(shell.executor.node_changed(node, is_up=is_up))
                model.look(node)
                model.look_for_all(node)
            case ("client leaves", client):
                shell.gone.add(client)
                model.gone.add(client)
            case ("look again",):
                shell.act(shell.executor.look_again())
                model.look_for_all()
            case ("late word of a client", client) if client in model.gone:
                shell.act(shell.executor.client_down(client, "gone"))
                if model.monitored.pop(client, client) is None:
                    model.log.append(encode_command(ClientDown(client, "gone")))
            case ("time", name) if name in model.timers:
                del shell.timers[name], model.timers[name]
                shell.act(shell.executor.timed_out(name))
                model.log.append(encode_command(Timeout(name)))
            case _:
                pass
        assert (shell.timers, shell.log) == (model.timers, model.log)
        assert (shell.sent, shell.written) == (model.sent, model.written)
