"""etcd v3 as a system under test, over its JSON gateway: no client library stands between an op and its outcome.

gateway    one HTTP connection to one node
messages   what goes over it, and what comes back
errors     which errors say that nothing happened
session    registers, sets and locks
membership how nodes leave and join
observer   the Raft state of a node, for telemetry
system     how to start a node, and how to find the leader
"""

from splitbrain.harness.systems.etcd.session import EtcdSession
from splitbrain.harness.systems.etcd.system import Etcd

__all__ = ["Etcd", "EtcdSession"]
