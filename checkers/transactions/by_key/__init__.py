"""One history taken apart by key: what each part of the way from its rows to its verdict does, without Spark.

For a history that is too large for one process. No part sees the whole:

*   `rows` makes rows of micro-operations of a piece of the file, and transactions of those of some keys again;
*   `parts` infers dependencies and anomalies of single reads from these, key by key, as `lists` and `registers` do;
*   `barriers` gives the edges of real time of a piece of the history;
*   `trimming` finds where a graph falls apart, and what of a piece is on cycles;
*   `rest` looks for cycles in what is left, by the same search as of a whole history;
*   `reasons` says why there are the edges of the cycles that were found;
*   `concluding` makes the verdict, of the few transactions that it cites.

`splitbrain.checkers.spark.by_keys` carries the tables from one to the next.
"""
