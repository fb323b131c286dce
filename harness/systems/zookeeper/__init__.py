"""ZooKeeper as a system under test, over its own protocol.

records    requests and answers as bytes (jute, ZooKeeper's serialization)
connection one session over one connection to one node
errors     what ZooKeeper's errors mean for an operation
session    registers, sets and locks
status     what a node says of itself
settings   the files with which a node is started
system     how to start a node, how to talk to it, how to find the leader
"""

from splitbrain.harness.systems.zookeeper.session import ZookeeperSession
from splitbrain.harness.systems.zookeeper.system import Zookeeper

__all__ = ["Zookeeper", "ZookeeperSession"]
