"""Settings of the tests of the store."""

from hypothesis import settings

# The first example pays for imports, and machines are shared: a deadline per example would be a coin toss.
settings.register_profile("results")
settings.load_profile("results")
