"""The ssh backend: nodes on the user's own hosts, reached with paramiko and run by an agent on each.

`inventory` says which hosts there are and how they are known (`knownhosts`); `connection` is one host over ssh;
`machine` is what a run has there, a directory and an agent; `support` looks at hosts (`look`) before anything starts,
and says which faults they can have; `deployment` is a test on them, with `links` between hosts.
"""
