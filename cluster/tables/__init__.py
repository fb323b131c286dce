"""The replicated-table store: a second metadata store, which is deliberately no consensus system."""
