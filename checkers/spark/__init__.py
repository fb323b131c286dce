"""The Spark pipeline: the same checkers over any number of stored runs. PySpark is imported on first use only."""
