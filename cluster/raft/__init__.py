"""Consensus as a pure state machine: an event in, effects out (after Ra, and the Raft paper and thesis of D. Ongaro).

`Raft` is one member. It does no I/O, reads no clock, draws no random number and never waits: the shell around it hands
in events (`splitbrain.cluster.raft.events`) and carries out effects (`splitbrain.cluster.raft.effects`, which states
the contract).
"""

from splitbrain.cluster.raft.config import Config
from splitbrain.cluster.raft.log import Log
from splitbrain.cluster.raft.machine import InvariantError, Raft, Recovered
from splitbrain.cluster.raft.messages import Entry, Message, NodeId, decode, encode

__all__ = ["Config", "Entry", "InvariantError", "Log", "Message", "NodeId", "Raft", "Recovered", "decode", "encode"]
