"""A module without kernels, as `splitbrain prepare` takes one."""


def warm_up() -> None:
    """Compile nothing."""
