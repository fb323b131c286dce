"""Redis with Sentinel as a system under test: one primary, replicas, and a Sentinel beside each of them.

connection one connection to one node, by hiredis
errors     what Redis's errors mean for an operation
session    registers, sets and locks
observer   who is primary, for telemetry and for faults that aim at it
settings   the files with which a node is started
node       the program of a node: runs a server and a Sentinel
system     how to start a node, how to talk to it, how to find the primary
"""

from splitbrain.harness.systems.redis.session import RedisSession
from splitbrain.harness.systems.redis.system import Redis

__all__ = ["Redis", "RedisSession"]
