"""The command line. It parses and prints; no other package imports it."""
