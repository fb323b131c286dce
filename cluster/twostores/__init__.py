"""A node with two stores of entities: a replica of the tables beside its member of the tree (M2K, D5, D10).

One of the two is in force, and answers all operations on entities; the feature flag `khepri_db` moves them from the
tables to the tree.

    tree         the tree of this node as a `MetadataStore`
    replica      the tables of this node, over its links
    serving      operations of clients on entities, by the store in force
    mover        the migration, the way back, and what a process that died has left of them
    node         all of it, as the node has it
"""
