"""Peer discovery: how nodes without data find each other and form one cluster (PD-1 to PD-5).

`formation` decides what a node does; it is a pure state machine. `record` keeps what a node has promised to others,
and `voter` makes these promises. `forming` is the shell around all of them, and around the node. `front` is its
address, `book` knows those of others, `takingin` takes others in. Backends (`backend`) know where nodes are:
`classic` (a list), `dns`, `kubernetes`, `consul` and `etcd`.
"""
