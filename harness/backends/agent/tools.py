"""What the modules of the agent share: its error, the system's tools, and several things that are done at once."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Sequence
from typing import TypeVar


class AgentError(Exception):
    """The agent could not do what was asked."""


# --- system tools -----------------------------------------------------------------------------------------------------

TOOL_TIMEOUT_S = 10
SYSTEM_DIRECTORIES = ("/usr/sbin", "/sbin", "/usr/local/sbin")


def find_tool(name: str, packages: str = "iproute2 nftables") -> str:
    """The path of a system tool; a plain user's PATH often lacks the directories where these are.

    Args:
        name: the program.
        packages: what to install where it is missing.

    Raises:
        AgentError: it is not installed.
    """
    for directory in (*os.environ.get("PATH", "").split(os.pathsep), *SYSTEM_DIRECTORIES):
        path = os.path.join(directory, name)
        if directory and os.access(path, os.X_OK):
            return path
    raise AgentError(f"there is no {name!r} on this machine (Debian and Ubuntu: apt install {packages})")


def run_tool(argv: Sequence[str], text: str = "", *, on: str) -> str:
    """Run a tool to its end, this process waiting, and return what it printed.

    Args:
        argv: the tool, by its path, and its arguments.
        text: its input.
        on: the node on whose behalf, for messages.

    Raises:
        AgentError: it cannot be run, fails, or does not end in time.
    """
    tool = f"{on}: {os.path.basename(argv[0])}"
    try:
        done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AgentError(f"{tool} did not run: {error}") from None
    if done.returncode != 0:
        raise AgentError(f"{tool} failed with code {done.returncode}: {' '.join(done.stderr.split())[:300]}")
    return done.stdout


# --- several things at once -------------------------------------------------------------------------------------------

T = TypeVar("T")


async def ended(work: Sequence[Awaitable[T]]) -> list[T | BaseException]:
    """Results or exceptions, in order."""
    return list(await asyncio.gather(*work, return_exceptions=True))


async def all_of(work: Sequence[Awaitable[T]]) -> list[T]:
    """Results in order. When all of it has ended, the first failure is raised, if there is one."""
    results = await ended(work)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
