"""Quorum queues as groups of the cluster: what is between the machine of a queue and the nodes that replicate it.

records   what the metadata say of a queue: its group, its members, its configuration
log       how commands stand in the log of a queue's group: each with the leader's time
effects   what a queue asks for, as effects of a group's machine
worker    who publishes dead letters at least once
notes     what clients are sent, and answered
store     the state machine of a queue's group
keeper    what a node does about queues: it begins and ends their groups as the metadata say
"""
