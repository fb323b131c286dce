"""The container engine: a client for it, or one line on why there is none."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import docker
import requests
from docker.errors import APIError, DockerException
from urllib3.exceptions import HTTPError

from splitbrain.results.errors import ContainerEngineError

CONNECT_TIMEOUT_S: Final = 5
ANSWER_TIMEOUT_S: Final = 60
"""How long one request may take. Stopping a container waits for its grace period, so this is generous."""

OLDEST_API: Final = (1, 41)
"""Docker Engine 20.10, which is the oldest that the backends are tested with."""

DEFAULT_SOCKET: Final = "unix:///var/run/docker.sock"

ENGINE_FAILURES: Final = (DockerException, HTTPError, OSError)
"""What a call of the SDK raises when the engine refuses or fails: its own errors, those of requests (OSErrors all), and
urllib3's while an answer is streamed."""


def engine() -> docker.DockerClient:
    """A client for the engine of DOCKER_HOST, by default the one on this machine. The caller closes it.

    Raises:
        ContainerEngineError: there is none, it may not be used, it does not answer, or it is too old.
    """
    where = os.environ.get("DOCKER_HOST") or DEFAULT_SOCKET
    try:
        _knock(where)
        # A client that is always closed asks: one that negotiates in its constructor and fails stays open.
        with closing(_client(_text(OLDEST_API), CONNECT_TIMEOUT_S)) as asking:
            offered = str(asking.api.version(api_version=False)["ApiVersion"])
        if _numbers(offered) >= OLDEST_API:
            return _client(offered, ANSWER_TIMEOUT_S)
    except ENGINE_FAILURES as error:
        raise ContainerEngineError(f"{_problem(where, error)} (`splitbrain doctor` lists what else works).") from error
    raise ContainerEngineError(
        f"the Docker engine at {where} is too old: it speaks API {offered}, and {_text(OLDEST_API)} (engine 20.10) is "
        "needed. Upgrade it."
    )


def _knock(where: str) -> None:
    """Connect to a local engine and hang up: where that fails, the SDK would leave its socket open.

    Raises:
        OSError: the connection failed.
    """
    scheme, _, path = where.partition("://")
    if scheme == "unix":
        with socket.socket(socket.AF_UNIX) as knocking:
            knocking.settimeout(CONNECT_TIMEOUT_S)
            knocking.connect(path)


def _client(version: str, timeout_s: int) -> docker.DockerClient:
    return docker.DockerClient.from_env(version=version, timeout=timeout_s)


def _problem(where: str, error: BaseException) -> str:
    """What keeps the engine at `where` from being used, and what to do about it."""
    causes = list(_causes(error))
    if any(isinstance(cause, FileNotFoundError) for cause in causes):
        return f"no Docker engine runs here: there is no socket {where}. Start one, or set DOCKER_HOST"
    if any(isinstance(cause, PermissionError) for cause in causes):
        return f"permission denied for the Docker engine at {where}: be root, or a member of the socket's group"
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return f"no Docker engine answers at {where}: start it, or set DOCKER_HOST"
    if any(isinstance(cause, TimeoutError | requests.Timeout) for cause in causes):
        return f"the Docker engine at {where} does not answer within {CONNECT_TIMEOUT_S} s: restart it"
    return f"the Docker engine at {where} cannot be used: {one_line(error)}"


def one_line(error: BaseException) -> str:
    """What an error of the SDK says, in one line; of an engine's refusal the engine's own words."""
    said = error.explanation if isinstance(error, APIError) and error.explanation else error
    return " ".join(str(said).split())


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it wraps. (requests and urllib3 hand causes on in `args`, not only by chaining.)"""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        each = waiting.pop()
        if isinstance(each, BaseException) and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [*each.args, each.__cause__, each.__context__, getattr(each, "reason", None)]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
