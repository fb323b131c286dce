"""Calls that a simulation would refuse, answered by the simulated process that makes them.

A program in plain asyncio asks Python for time, randomness and files. While one of its callbacks runs, the loop of its
process is the running loop: that one knows the answers. Everywhere else such a call is refused (`guard`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final


class Declined:
    """What an answer returns for arguments that it does not handle: the call then continues without an answer."""


DECLINED: Final = Declined()


class Answering(asyncio.AbstractEventLoop):
    """An event loop whose callbacks may make calls that are refused elsewhere.

    Attributes:
        answers: by the name of the call (`time.time`) what is called instead, with the same arguments.
        advice: what to use instead, in place of what is said to code that has no such loop.
    """

    answers: Mapping[str, Callable[..., Any]]
    advice: Mapping[str, str]


def answering() -> Answering | None:
    """The loop that runs now, if it answers."""
    loop = asyncio._get_running_loop()  # pyright: ignore[reportPrivateUsage] - the public one raises if there is none
    return loop if isinstance(loop, Answering) else None


def answered(call: str, *args: Any, **kwargs: Any) -> Any:
    """The answer to a call, DECLINED if there is none."""
    loop = answering()
    answer = None if loop is None else loop.answers.get(call)
    return DECLINED if answer is None else answer(*args, **kwargs)


def advised(instead: str) -> str:
    """What a refusal recommends to the running code."""
    loop = answering()
    return instead if loop is None else loop.advice.get(instead, instead)
