"""Entities of a message broker in the table store: the operations of `splitbrain.cluster.entities` (DB-7).

A caller uses the functions of the entity modules over a `TablesStore`, and does not see which store answers.

    layout       the tables and their keys
    transaction  what an operation reads and changes
    locks        what it locks before
    removal      what goes with an entity, since tables have no tree that takes it along
    routes       bindings, and the tables that follow from them
    operations   one function for each operation; `ends`: those of exchanges, queues and bindings
    projected    the tables under the names of the tree's projections
    access       whether the tables may be read and written: what a migration closes
    procedures   all of this as procedures of the table store
    store        `MetadataStore` over it
"""
