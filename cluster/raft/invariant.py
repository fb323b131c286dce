"""The error of a broken invariant."""

from __future__ import annotations


class InvariantError(AssertionError):
    """Something that consensus rules out has happened: a bug here, or stored or received state that no correct member
    makes (RA-17). The node must stop; carrying on could destroy what others rely on.
    """
