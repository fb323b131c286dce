"""Entities of a message broker in the metadata store, modelled on RabbitMQ's `rabbit_db_*` modules (DB-1 to DB-9).

One module for each kind has its transactions, and the typed functions that callers use: vhosts, users, permissions,
exchanges, queues, bindings, parameters, policies, maintenance.

    records     what is stored of each; `paths`: where; `names`: how names and arguments are encoded
    store       what all of this needs of a store; `client`: the store as a client of a node sees it
    errors      what is refused; needs, equivalence and expressions are how some of that is found out
    tables      the projections; route_index and topic_trie are those for messages
    routing     where a message goes, from projections alone; `headers`: one kind of exchange
    topology    all entities of one moment
    functions   the registered functions of all of these, as nodes know them
"""
