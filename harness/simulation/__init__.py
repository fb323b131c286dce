"""The simulated world: one process, one event loop under virtual time, a function of (code, test, seed)."""
