"""The docker backend: nodes as containers, faults injected from outside, nothing needed inside but the system itself.

    controller  --SDK-->          engine  -->  containers: runner and keeper for each node (`nodes`)
                --socket pair-->  agent   --setns-->  the keepers' network namespaces: cuts, probes, queues
                --TCP-->          nodes, from this machine's end of the network: across no link

Everything that is made carries the controller's mark and the id of the run (`labels`). Unlike processes, containers do
not die with a controller that is killed: the next start sweeps them, and cuts expire before that.
"""

from splitbrain.harness.backends.docker.backend import DockerBackend
from splitbrain.harness.backends.docker.deployment import DockerDeployment

__all__ = ["DockerBackend", "DockerDeployment"]
