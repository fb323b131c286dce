"""PostgreSQL as a system under test: one server at a level of isolation, or a primary with standbys.

errors      which errors say that nothing happened
connection  a connection to one node, by asyncpg
session     registers, sets, counters, locks and transactions
observer    who is primary, for telemetry
settings    the files with which a server is configured
node        the program of a node: makes or copies its data, promotes a standby
system      how to start a node, and how to find the primary
"""

from splitbrain.harness.systems.postgresql.session import PostgresqlSession
from splitbrain.harness.systems.postgresql.system import Postgresql

__all__ = ["Postgresql", "PostgresqlSession"]
