"""The local backend: nodes as processes of this machine, with real kills, pauses and cuts.

    controller  --socket pair-->  agent  --fork, setns, exec-->  nodes
                <--TCP sockets--

One agent per deployment holds everything: in namespaces of its own it is the first process of a PID namespace, so that
its end, or its controller's, is the end of every node; with proxies the kernel's parent-death signals do that.
"""

from splitbrain.harness.backends.local.backend import LocalBackend
from splitbrain.harness.backends.local.deployment import LocalDeployment
from splitbrain.harness.backends.local.support import LINKS_VARIABLE, Links

__all__ = ["LINKS_VARIABLE", "Links", "LocalBackend", "LocalDeployment"]
