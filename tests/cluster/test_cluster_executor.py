"""What a member does about effects of its machine, alone: against a simple model (RA-23, RA-24)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.executor import Action, Executor, LookAt, StartTimer, StopTimer
from splitbrain.cluster.machine import (
    AppendCommand,
    DemonitorNode,
    MachineEffect,
    MonitorNode,
    NodeDown,
    NodeUp,
    ReleaseCursor,
    SendToClient,
    SetTimer,
    Timeout,
    WriteCheckpoint,
)
from splitbrain.cluster.tree import encode_command
from splitbrain.cluster.wire import ClientAddress

names = st.sampled_from(["a", "b"])
effects: st.SearchStrategy[MachineEffect] = st.one_of(
    st.builds(SetTimer, names, st.one_of(st.none(), st.integers(1, 9))),
    st.builds(MonitorNode, names),
    st.builds(DemonitorNode, names),
    st.builds(AppendCommand, st.just(b"x")),
    st.builds(
        SendToClient,
        st.builds(ClientAddress, st.sampled_from(["n1", "n2", "n3"]), st.just(1), st.just(1)),
        st.binary(max_size=1),
        st.booleans(),
    ),
    st.builds(ReleaseCursor, st.integers(1, 9)),
    st.just(WriteCheckpoint()),
)
steps = st.one_of(
    st.tuples(st.just("applied"), st.integers(1, 9), st.lists(effects, max_size=4)),
    st.tuples(st.just("begin"), st.lists(effects, max_size=4)),
    st.tuples(st.just("role"), st.booleans()),
    st.tuples(st.just("link"), names, st.booleans()),
    st.tuples(st.just("time"), names),
)


class Shell:
    """Carries out actions: runs timers, and keeps what is asked of the log and of snapshots."""

    def __init__(self) -> None:
        self.timers: dict[str, int] = {}
        self.links = {"a": True, "b": True}
        self.executor = Executor("n1", 3, lambda node: node in ("n1", "n2"))
        self.sent: list[SendToClient] = []
        self.log: list[bytes] = []
        self.written: list[MachineEffect] = []

    def act(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case StartTimer(name, delay_ms):
                    self.timers[name] = delay_ms
                case StopTimer(name):
                    del self.timers[name]
                case LookAt(node):
                    self.act(self.executor.node_changed(node, is_up=self.links[node]))
                case AppendCommand(data):
                    self.log.append(data)
                case SendToClient():
                    self.sent.append(action)
                case ReleaseCursor() | WriteCheckpoint():
                    self.written.append(action)


class Model:
    """The same, said as simply as possible."""

    def __init__(self) -> None:
        self.leads = False
        self.timers: dict[str, int] = {}
        self.links = {"a": True, "b": True}
        self.thought_up: dict[str, bool] = {}
        self.log: list[bytes] = []
        self.sent: list[SendToClient] = []
        self.written: list[MachineEffect] = []

    def carry_out_all(self, effects: list[MachineEffect]) -> None:
        for effect in effects:
            self.carry_out(effect)

    def carry_out(self, effect: MachineEffect) -> None:
        match effect:
            case ReleaseCursor() | WriteCheckpoint():
                self.written.append(effect)
            case SendToClient() if effect.local and effect.client.node in ("n1", "n2"):
                self.sent += [effect] if effect.client.node == "n1" else []
            case _ if not self.leads:
                pass
            case SetTimer(name, delay_ms):
                self.timers.pop(name, None)
                if delay_ms is not None:
                    self.timers[name] = delay_ms
            case MonitorNode(node):
                self.thought_up.setdefault(node, True)
                self.look()
            case DemonitorNode(node):
                self.thought_up.pop(node, None)
            case AppendCommand(data):
                self.log.append(data)
            case SendToClient():
                self.sent.append(effect)

    def look(self) -> None:
        for node, thought in self.thought_up.items():
            if thought != self.links[node]:
                self.thought_up[node] = not thought
                self.log.append(encode_command(NodeDown(node) if thought else NodeUp(node)))


@given(st.lists(steps, max_size=40))
def test_ra23_a_leader_does_what_its_machine_asks_for_and_a_follower_only_what_concerns_its_disk(
    story: list[Any],
) -> None:
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
                model.timers, model.thought_up = {}, {}
            case ("link", node, is_up):
                shell.links[node] = model.links[node] = is_up
                shell.act(shell.executor.node_changed(node, is_up=is_up))
                model.look()
            case ("time", name) if name in model.timers:
                del shell.timers[name], model.timers[name]
                shell.act(shell.executor.timed_out(name))
                model.log.append(encode_command(Timeout(name)))
            case _:
                pass
        assert (shell.timers, shell.log) == (model.timers, model.log)
        assert (shell.sent, shell.written) == (model.sent, model.written)
