"""Systems under test: how to start a node, how to talk to it, how to find the leader."""
