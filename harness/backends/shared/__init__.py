"""What several backends use.

`deployed` is what deployments of real nodes have in common; `links`, `disks`, `faketime` and `nodefaults` are what can
be wrong with their links, disks, clocks and nodes; `channel` is the controller's end of an agent on this machine;
`ownership` says whose a process or a file is, and `leftovers` removes what belongs to controllers that are dead.
"""
