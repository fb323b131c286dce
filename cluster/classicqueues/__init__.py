"""Classic queues in nodes: each is held by one node, in files of `splitbrain.cluster.classic` (CQ-1 to CQ-9)."""
