"""The ssh backend: nodes on the user's own hosts, reached with paramiko and run by an agent on each.

`inventory` says which hosts there are and how they are known; `connection` is one host over ssh, `agents` the
controller's end of the agent there; `survey` looks at hosts before anything is started; `machine` lays out and clears
away a run's directory; `deployment` is a test on them, with `links` between hosts and `faults` and `clocks` of nodes;
`backend` puts all of it together.
"""
