"""The ssh backend: nodes on hosts that somebody has, reached with paramiko and run by an agent on each.

`inventory` says which hosts there are and how they are known; `connection` is one host over ssh, `agents` the
controller's end of the agent there; `survey` looks at hosts before anything is started; `deployment` is a test on them.
"""

from harness.backends.ssh.backend import SshBackend
from harness.backends.ssh.inventory import Host, Inventory

__all__ = ["Host", "Inventory", "SshBackend"]
