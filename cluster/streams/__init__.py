"""Streams: logs of messages that are read by offset, and replicated by a writer, and not by consensus (ST-1, ST-2).

position     how far a log reaches, and where two logs agree
commands     what stands in the log of the coordinator's group
state        what the coordinator knows of streams and their members
coordinator  the machine that says who writes a stream, in which epoch
store        the state machine of the coordinator's group
chunks       a stream's log, in memory and in its file
frames       what members of a stream, and their clients, send each other
member       a node's copy of a stream, as writer or replica: a pure state machine
host         what a node does about streams: files, messages, requests of clients
requests     requests of clients that are under way in a node
"""
