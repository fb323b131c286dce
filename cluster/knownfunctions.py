"""What a node says of the registered functions that it knows when it calls another: both must know the same (D13).

The log has names and versions of functions. A member that lacks one would refuse a command that the others carry out,
and so their states would differ from there on. So nodes that know other functions do not speak with each other. As with
versions of the state machine (RA-43), functions count from the version on to which they belong: what is known since a
version that one of the two does not support is not compared.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from splitbrain.cluster.tree import PATTERNS_COME, Functions

_BYTES = 8
_NAMED = 200


class KnownFunctions(msgspec.Struct, frozen=True, array_like=True):
    """The functions that a node knows.

    Attributes:
        digests: one for each version of the state machine that the node supports, from the first with functions on, of
            the names and versions of all functions that are known since then or earlier.
        others: those that not every node has by itself, as "name version", for people; at most 200.
    """

    digests: tuple[bytes, ...]
    others: tuple[str, ...] = ()


def known_by(functions: Functions, built_in: Functions, machine_version: int) -> KnownFunctions:
    """What a node says of these functions.

    Args:
        functions: all that it knows.
        built_in: those of every node.
        machine_version: the latest version of the state machine that it supports.
    """
    every = [(name, version, functions.since(name, version)) for name, version in functions.names()]
    own = {*built_in.names()}
    others = [f"{name} {version}" for name, version, _ in every if (name, version) not in own]
    digests = [
        blake2b(
            msgspec.msgpack.encode([(name, version) for name, version, known in every if known <= since]),
            digest_size=_BYTES,
        ).digest()
        for since in range(PATTERNS_COME, machine_version + 1)
    ]
    return KnownFunctions(tuple(digests), tuple(others[:_NAMED]))


def difference(ours: KnownFunctions, theirs: KnownFunctions, node: str, peer: str) -> str | None:
    """Why two nodes must not speak with each other, in words; None if they may."""
    pairs = zip(ours.digests, theirs.digests, strict=False)
    if all(our == their for our, their in pairs):
        return None
    found = [
        f"{one} knows {', '.join(only)}, and {other} does not"
        for one, other, only in (
            (node, peer, [each for each in ours.others if each not in theirs.others]),
            (peer, node, [each for each in theirs.others if each not in ours.others]),
        )
        if only
    ]
    return "; ".join(found) or "their programs differ"
