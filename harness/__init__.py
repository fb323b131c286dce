"""The controller: what a test is, how it runs, where nodes live, the command line."""
