"""The Docker engine as the backend uses it: asked from an event loop, bounded in time, its refusals in one line.

The SDK blocks, so every call runs in a small pool of threads. Calls are the engine's own (`docker.APIClient`), because
fixed addresses and containers that share a network are all there, and because each is one request.
"""

from __future__ import annotations

import asyncio
import datetime
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import docker
import docker.errors
import msgspec
import requests
from docker.types import LogConfig, Mount

from splitbrain.results.errors import BackendError

Result = TypeVar("Result")

THREADS = 8
"""As many requests at the same time as the SDK keeps connections for, less some."""
KILL_TAKES_AT_MOST_S = 10.0
PAUSE_TAKES_AT_MOST_S = 10.0
POLL_S = 0.02
_POLL_REMOVAL_S = 0.1

_PERIOD_US = 100_000
_QUOTA_MIN_US = 1000
"""The shortest quota that the kernel takes."""

_GAVE_UP_FREEZING = "unable to freeze"
"""runc's error when a control group of version 1 was not frozen after several attempts; it has thawed it then."""

NETWORK_IS_FREE_WITHIN_S = 5.0
"""Its last container counts as being on it for a moment after it is gone."""

_IN_USE = "active endpoints"
"""What the engine says of a network with containers on it."""

NOT_MODIFIED, NOT_FOUND, CONFLICT = 304, 404, 409


_API_NAMES = {
    "state": "State",
    "status": "Status",
    "pid": "Pid",
    "exit_code": "ExitCode",
    "oom_killed": "OOMKilled",
    "id": "Id",
    "name": "Name",
    "names": "Names",
    "labels": "Labels",
    "created": "Created",
}
"""What the engine's API calls the fields of the structures below."""


class ContainerState(msgspec.Struct, frozen=True, rename=_API_NAMES):
    """What the engine says of a container: pid is that of its first process, 0 if it has none."""

    status: str
    pid: int
    exit_code: int
    oom_killed: bool = False

    @property
    def has_processes(self) -> bool:
        """Whether it runs or is paused."""
        return self.status in ("running", "paused")


class Labelled(msgspec.Struct, frozen=True, rename=_API_NAMES):
    """A container (it has names) or a network (it has one), as the engine lists it."""

    id: str
    labels: Mapping[str, str] | None = None
    name: str = ""
    names: Sequence[str] = ()
    created: int | datetime.datetime | None = None

    @property
    def created_at_s(self) -> float:
        """Its creation, in seconds since 1970; the engine reports it so for containers, and as a date for networks."""
        if self.created is None:
            return math.inf
        return self.created if isinstance(self.created, int) else self.created.timestamp()

    @property
    def shown(self) -> str:
        """Its name, or as much of its id as the engine's own tools print."""
        return (self.name or next(iter(self.names), "")).lstrip("/") or short(self.id)


class _Inspected(msgspec.Struct, frozen=True, rename=_API_NAMES):
    state: ContainerState


class ContainerSpec(msgspec.Struct, frozen=True):
    """A container to be made.

    Attributes:
        name: its name; no other container of the engine may have it.
        image: tag or id of an image that the engine has.
        entrypoint: program and arguments.
        labels: what it carries.
        env: its environment beside the image's own.
        binds: directories and files of this machine, and where they are inside.
        working_dir: where the program starts.
        hostname: its host name, where it has a network of its own.
        hosts: names that resolve inside, with their addresses.
        network: name of the network and the address there; None for none of its own.
        shares_network_of: the id of the container whose network it shares; None for its own.
        init: whether the engine's own init is its first process: it reaps, and passes signals on with the effect that
            they have on any process but the first of a container.
    """

    name: str
    image: str
    entrypoint: tuple[str, ...]
    labels: Mapping[str, str]
    env: Mapping[str, str] = {}
    binds: Mapping[str, str] = {}
    working_dir: str = "/"
    hostname: str | None = None
    hosts: Mapping[str, str] = {}
    network: tuple[str, str] | None = None
    shares_network_of: str | None = None
    init: bool = True


class Engine:
    """The engine for one deployment. Use it from one event loop, and close it.

    Args:
        client: a client of the SDK with a timeout; closed with this object.
    """

    def __init__(self, client: docker.DockerClient) -> None:
        self._client = client
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="docker")

    async def run(self, call: Callable[[], Result]) -> Result:
        """Run something that blocks in one of the threads.

        A cancellation takes effect when the call has ended, or was not started. Otherwise the engine could carry out
        the call after later requests, such as a pause after the end of all faults.
        """
        called = self._pool.submit(call)
        ended = asyncio.wrap_future(called)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            if not called.cancel():
                ended.add_done_callback(lambda failed: failed.cancelled() or failed.exception())  # not needed
                await asyncio.wait([ended])
            raise

    async def ask(self, what: str, call: Callable[[docker.APIClient], Result]) -> Result:
        """Ask the engine for something.

        Args:
            what: the purpose, as it follows "could not".
            call: the request.

        Raises:
            BackendError: the engine refused, or did not answer in time.
        """
        return await self.run(lambda: asked(self._client.api, what, call))

    # --- containers ---------------------------------------------------------------------------------------------------

    async def create(self, spec: ContainerSpec) -> str:
        """Make a container, not yet started; its id."""

        def make(api: docker.APIClient) -> str:
            host_config = api.create_host_config(
                mounts=[Mount(inside, source, type="bind") for source, inside in spec.binds.items()],
                # The engine refuses names for a container that shares a network, whose own it sees anyway.
                extra_hosts=dict(spec.hosts) if spec.shares_network_of is None else None,
                network_mode=_network_mode(spec),
                # A node writes its log into a file of this machine; the engine's copy would end with the container.
                log_config=LogConfig(type=LogConfig.types.NONE),
                init=spec.init,
            )
            networking: Any = None
            if spec.network is not None:
                name, address = spec.network
                networking = {"EndpointsConfig": {name: api.create_endpoint_config(ipv4_address=address)}}
            made = cast(
                object,
                api.create_container(
                    image=spec.image,
                    entrypoint=list(spec.entrypoint),
                    name=spec.name,
                    hostname=spec.hostname,
                    environment=dict(spec.env),
                    labels=dict(spec.labels),
                    working_dir=spec.working_dir,
                    host_config=host_config,
                    networking_config=networking,
                ),
            )
            return msgspec.convert(made, Labelled).id

        return await self.ask(f"make the container {spec.name}", make)

    async def start(self, container: str) -> None:
        """Start a container; one that runs is left alone."""
        await self.ask(f"start the container {short(container)}", lambda api: api.start(container))

    async def kill(self, container: str) -> None:
        """SIGKILL to all processes of a container, paused or not, and wait until they are gone."""

        def end(api: docker.APIClient) -> None:
            try:
                api.kill(container, "KILL")
            except docker.errors.APIError as error:
                if _status(error) not in (NOT_FOUND, CONFLICT):  # it is not running
                    raise

        await self.ask(f"kill the container {short(container)}", end)
        deadline = asyncio.get_running_loop().time() + KILL_TAKES_AT_MOST_S
        while (await self.state(container)).has_processes:
            if asyncio.get_running_loop().time() > deadline:
                raise BackendError(
                    f"the container {short(container)} is still there {KILL_TAKES_AT_MOST_S:g} s after SIGKILL."
                )
            await asyncio.sleep(POLL_S)

    async def stop(self, container: str, grace_s: int) -> None:
        """SIGTERM, and SIGKILL to what is still there after `grace_s`."""
        await self.ask(f"stop the container {short(container)}", lambda api: api.stop(container, timeout=grace_s))

    async def pause(self, container: str) -> None:
        """Freeze all processes of a container; one that ended, or is frozen, stays so.

        On a busy machine the runtime may give up before every process has stopped, and resumes all of them: this is
        retried.
        """
        deadline = asyncio.get_running_loop().time() + PAUSE_TAKES_AT_MOST_S
        while True:
            try:
                await self.ask(
                    f"pause the container {short(container)}", lambda api: _unless_conflict(api.pause, container)
                )
            except BackendError as error:
                if _GAVE_UP_FREEZING not in str(error) or asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(POLL_S)
            else:
                return

    async def unpause(self, container: str) -> None:
        """Let the processes of a container run again; one that ended, or runs, stays so."""
        await self.ask(f"resume the container {short(container)}", lambda api: _unless_conflict(api.unpause, container))

    async def limit_cpu(self, container: str, share: float | None) -> None:
        """Give a container this share of one CPU, now and whenever it is started again; None for no limit."""
        quota = -1 if share is None else max(_QUOTA_MIN_US, round(share * _PERIOD_US))
        await self.ask(
            f"limit the container {short(container)}",
            lambda api: cast(object, api.update_container(container, cpu_period=_PERIOD_US, cpu_quota=quota)),
        )

    async def execute(self, container: str, argv: Sequence[str]) -> str:
        """Run a program in a running container; what it printed, on both outputs.

        Raises:
            BackendError: it could not be run, or failed.
        """

        def run(api: docker.APIClient) -> tuple[str, int]:
            made = cast(dict[str, str], api.exec_create(container, list(argv)))["Id"]
            printed = api.exec_start(made).decode(errors="replace")
            return printed, int(cast(dict[str, int], api.exec_inspect(made))["ExitCode"])

        printed, code = await self.ask(f"run {argv[0]} in the container {short(container)}", run)
        if code != 0:
            said = " ".join(printed.split())[-300:]
            raise BackendError(f"{argv[0]} in the container {short(container)} failed with code {code}: {said}")
        return printed

    async def state(self, container: str) -> ContainerState:
        """What the engine says of a container."""
        found = await self.ask(
            f"look at the container {short(container)}", lambda api: cast(object, api.inspect_container(container))
        )
        return msgspec.convert(found, _Inspected).state

    async def image_id(self, tag: str) -> str:
        """The id of the image that a tag means now: the digest of its configuration, which names its layers."""
        found = await self.ask(f"look at the image {tag}", lambda api: cast(object, api.inspect_image(tag)))
        return msgspec.convert(found, Labelled).id

    async def remove(self, container: str) -> None:
        """End a container and remove it; it is no error if it does not exist."""
        await self.ask(f"remove the container {short(container)}", lambda api: remove_container(api, container))

    # --- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of threads and connections."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._client.close()


def asked(api: docker.APIClient, what: str, call: Callable[[docker.APIClient], Result]) -> Result:
    """Ask the engine for something and wait for it (`Engine.ask` is for event loops).

    Raises:
        BackendError: the engine refused, or did not answer in time.
    """
    try:
        return call(api)
    except docker.errors.DockerException as error:
        raise BackendError(f"the Docker engine could not {what}: {_reason(error)}.") from error
    except requests.Timeout:
        raise BackendError(
            f"the Docker engine could not {what}: no answer within {api.timeout} s. See whether `docker ps` answers."
        ) from None
    except requests.RequestException:
        raise BackendError(
            f"the Docker engine could not {what}: it is gone. See whether `docker ps` answers; the next run sweeps "
            "what this one left behind."
        ) from None


def remove_container(api: docker.APIClient, container: str) -> bool:
    """End a container and remove it; False if it does not exist, or is being removed by another process."""
    try:
        api.remove_container(container, v=True, force=True)  # v: volumes without a name, which images may declare
    except docker.errors.APIError as error:
        if _status(error) not in (NOT_FOUND, CONFLICT):
            raise
        return False
    return True


def remove_network(api: docker.APIClient, network: str) -> str | None:
    """Remove a network; it is no error if it does not exist. Returns the containers that keep it; else None."""
    deadline = time.monotonic() + NETWORK_IS_FREE_WITHIN_S
    while True:
        try:
            api.remove_network(network)
        except docker.errors.NotFound:
            return None
        except docker.errors.APIError as error:
            if _IN_USE not in _reason(error):
                raise
            if time.monotonic() > deadline:
                return _reason(error)
        else:
            return None
        time.sleep(_POLL_REMOVAL_S)


def containers_with(api: docker.APIClient, labels: Sequence[str]) -> list[Labelled]:
    """All containers, running or not, that carry these labels ("name" or "name=value")."""
    return msgspec.convert(cast(object, api.containers(all=True, filters={"label": list(labels)})), list[Labelled])


def networks_with(api: docker.APIClient, labels: Sequence[str]) -> list[Labelled]:
    """All networks that carry these labels ("name" or "name=value")."""
    return msgspec.convert(cast(object, api.networks(filters={"label": list(labels)})), list[Labelled])


def short(container: str) -> str:
    """A container's id as the engine's own tools print it."""
    return container[:12]


def _network_mode(spec: ContainerSpec) -> str:
    if spec.shares_network_of is not None:
        return f"container:{spec.shares_network_of}"
    return spec.network[0] if spec.network is not None else "none"


def _unless_conflict(call: Callable[[str], Any], container: str) -> None:
    try:
        call(container)
    except docker.errors.APIError as error:
        # The engine answers so when a container is already what it shall become, or does not run; which of the two,
        # the caller sees in its state.
        if _status(error) not in (CONFLICT, NOT_MODIFIED) and "not paused" not in _reason(error):
            raise


def _status(error: docker.errors.APIError) -> int | None:
    return None if error.response is None else int(error.response.status_code)


def _reason(error: docker.errors.DockerException) -> str:
    explanation: Any = getattr(error, "explanation", None) or str(error)
    text = explanation.decode(errors="replace") if isinstance(explanation, bytes) else str(explanation)
    return " ".join(text.split()).rstrip(".")[:300]
