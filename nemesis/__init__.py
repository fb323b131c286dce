"""Faults, and how they are scheduled."""
