"""Feature flags of the metadata cluster, as clients see them: probes, which switch nothing on."""

from __future__ import annotations

from splitbrain.cluster.client import Client
from splitbrain.harness.contract.sessions import Answer, DefiniteError

_PROBE = "probe_"


class MetadataFlags:
    """What one client asks of the flags of one node; errors are those of the client."""

    def __init__(self, client: Client, timeout_ms: int) -> None:
        self._client = client
        self._timeout_ms = timeout_ms

    async def enable(self, number: int) -> Answer:
        """Have a probe enabled, with what it depends on."""
        await self._client.enable_feature_flag(f"{_PROBE}{number:03}", timeout_ms=self._timeout_ms)
        return Answer(number)

    async def listed(self) -> Answer:
        """What the node says of its probes.

        Raises:
            DefiniteError: it has not joined completely.
        """
        probes = [flag for flag in await self._client.feature_flags() if flag.name.startswith(_PROBE)]
        if any(flag.state == "unknown" for flag in probes):
            raise DefiniteError("not_synchronised: the node has not taken over which flags are enabled")
        begun = [flag for flag in probes if flag.state != "disabled"]
        return Answer(
            {
                "enabled": [_number(flag.name) for flag in begun if flag.state == "enabled"],
                "changing": [_number(flag.name) for flag in begun if flag.state == "state_changing"],
                "needs": [[_number(flag.name), *map(_number, flag.depends_on)] for flag in probes if flag.depends_on],
            }
        )


def _number(name: str) -> int:
    return int(name.removeprefix(_PROBE))
