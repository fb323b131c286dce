"""What a run leaves behind: the history format, the store, reports."""
