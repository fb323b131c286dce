"""The metadata cluster: the system that splitbrain was made to test.

It knows nothing of the harness. From outside only `splitbrain.cluster.client` and the node's entry point (`python -m
splitbrain.cluster`) are used.
"""
