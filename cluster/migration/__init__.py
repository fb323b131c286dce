"""Entities move from the table store to the tree while clients use them (M2K-1 to M2K-5, D5).

marker       what the tree says of the migration: so every node knows which store is in force
repeating    which operations may be carried out twice
dispatch     a `MetadataStore` that asks the store in force
converters   what a record of a table becomes in the tree
treewrites   the registered functions by which a migration writes to the tree
steps        what a migration wants done, and how it ended
procedure    what its state machines have in common
machine      the migration; `rollback`: the way back; `expiry`: the end of the tables
shell        carries out what they want
"""
