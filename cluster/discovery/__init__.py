"""Peer discovery: how nodes without data find each other and form one cluster (PD-1 to PD-5).

`formation` decides what a node does; it is a pure state machine. `founding` keeps what a node has promised to others.
`forming` is the shell around both, and `front` answers the calls of other nodes. Backends (`backend`) know where nodes
are: `classic` (a list), `dns`, `kubernetes`, `consul` and `etcd`.
"""
