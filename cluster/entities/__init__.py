"""Entities of a message broker in the metadata store: virtual hosts, users, exchanges, queues, bindings and others."""
