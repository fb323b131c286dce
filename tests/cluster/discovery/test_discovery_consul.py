"""The Consul backend against an agent on this machine that answers the calls it uses."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.cluster.discovery import consul as consul_module
from splitbrain.cluster.errors import DiscoveryError
from tests.cluster.discovery.ill import LIES, N1, N2, of_consul, play, suffers
from tests.cluster.discovery.services import (
    ConsulAgent,
    served,
)


def test_consul_lists_registered_nodes_of_the_cluster_whose_checks_pass() -> None:
    async def story() -> None:
        agent = ConsulAgent()
        async with served(agent) as service:
            one, two, other = of_consul(service, N1), of_consul(service, N2), of_consul(service, N2, cluster="other")
            for each in (one, two, other):
                await each.register()
                await each.post_registration()
            assert (await one.list_nodes()).peers == (N1, N2)
            assert (await other.list_nodes()).peers == (N2,)
            agent.critical.add("splitbrain-default-n2")
            assert (await one.list_nodes()).peers == (N1,)
            await two.post_registration()
            assert (await one.list_nodes()).peers == (N1, N2)
            await two.unregister()
            assert (await one.list_nodes()).peers == (N1,)
            with pytest.raises(DiscoveryError, match="Unknown check ID"):
                await two.post_registration()

    play(story)


def test_consuls_lock_has_one_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consul_module, "LOCK_ATTEMPTS", 2)
    monkeypatch.setattr(consul_module, "_LOCK_PAUSE_MS", 1)

    async def story() -> None:
        agent = ConsulAgent()
        async with served(agent) as service:
            one, two = of_consul(service, N1), of_consul(service, N2)
            assert await one.lock(())
            with pytest.raises(DiscoveryError, match="another node had the lock in all 2 attempts"):
                await two.lock(())
            assert list(agent.sessions) == ["session-1"], "a node that waits no longer leaves no session"
            await one.unlock()
            assert agent.sessions == {}
            assert await two.lock(())
            await two.unlock()
            await two.unlock()

    play(story)


class LosesAnswers:
    """The way to an agent that carries out what it is asked, and loses the answers to some of it.

    Args:
        http: to the agent.
        lost: parts of the targets whose answers are lost, once each.
    """

    def __init__(self, http: Any, *lost: str) -> None:
        self._http = http
        self.lost = list(lost)

    async def ask(self, method: str, target: str, body: object = None) -> Any:
        answer = await self._http.ask(method, target, body)
        for part in self.lost:
            if part in target:
                self.lost.remove(part)
                raise DiscoveryError(f"no answer to {part}")
        return answer


@pytest.mark.parametrize("lost", [("acquire=",), ("acquire=", "release=")])
def test_a_lock_of_consul_whose_answer_is_lost_is_given_back(lost: tuple[str, ...]) -> None:
    async def story() -> None:
        agent = ConsulAgent()
        async with served(agent) as service:
            one, two = of_consul(service, N1), of_consul(service, N2)
            http = LosesAnswers(one._http, *lost)  # pyright: ignore[reportPrivateUsage]
            one._http = http  # pyright: ignore
            with pytest.raises(DiscoveryError, match="no answer to acquire"):
                await one.lock(())
            assert http.lost == []
            assert agent.sessions == {}
            assert await two.lock(())
            await two.unlock()

    play(story)


def test_consuls_token_is_sent() -> None:
    async def story() -> None:
        async with served(ConsulAgent("secret")) as service:
            await of_consul(service, N1, headers={"X-Consul-Token": "secret"}).register()
            with pytest.raises(DiscoveryError, match="status 403: Permission denied"):
                await of_consul(service, N1).register()

    play(story)


def test_an_ill_consul_is_an_error_each_time() -> None:
    async def story() -> None:
        async with served(ConsulAgent()) as service:
            node = of_consul(service, N1)
            await node.register()
            await suffers(service, node.list_nodes, [lie for lie in LIES if lie != b"[]"])
            service.ills.raw = b"[]"
            assert (await node.list_nodes()).peers == ()

    play(story)
