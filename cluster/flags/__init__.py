"""Feature flags: what all nodes of a cluster can do once each of them can, switched on everywhere or nowhere.

`registry` says which flags a node knows, `record` what it has on disk, `participant` how it takes part in a change of
one, `controller` how a change is made, `proposal` how it is decided, `joining` what a node takes over. `machine` puts
them together, without I/O; its shell in a node is `splitbrain.cluster.flagkeeper`.

A change is made as RabbitMQ's feature flag controller makes it (FF-2): one at a time, with the consent of every member.
Beyond that it is decided by consensus: once all members have marked the flag and done what it takes, a majority of them
accepts that it is enabled, in the manner of Paxos (Lamport 1998; Gray and Lamport, "Consensus on Transaction Commit",
2006). Where the controller dies, any member finds out what may have been decided, and finishes it (D6).
"""
