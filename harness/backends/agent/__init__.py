"""The agent: the process beside the nodes that carries and cuts their links, and runs them if the backend has no other
runner.

The controller starts one agent per deployment and talks to it over a socket pair: one JSON object per packet, a request
`{"id", "op", ...}` answered by `{"id", "ok"}` or `{"id", "error"}`, sockets attached as ancillary data. The agent uses
only the standard library, because it runs with a bare interpreter (`-I -S`), which starts fast. It begins without
threads, as a process that has some cannot enter a user namespace; later only what disks do is done in others. Modules
here import only each other.

`main` binds the agent to its controller and serves requests; `processes` runs nodes; `bridge` and `proxies` are the two
fabrics by which links are carried and cut; `receivers` cuts links between networks that exist already; `syscalls` holds
what Python's `os` lacks. `node_faults` spoils the nodes' `disks` (on `volumes`, or in `memory`) and limits their share
of the processor (`cgroups`). Faults of links are `disturbances` where nodes have networks of their own: `packets` leads
what a node sends into queues (`nfqueue`), a `packet_link` says what becomes of it; of proxies they are `stream_link`s.
"""
