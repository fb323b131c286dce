"""Judging in a process of its own: whatever a file or a checker does to that process, the run gets a verdict.

`watched` looks at a process from outside, `confined` has tasks done by one that may die of any of them, and `judging`
makes a verdict of everything that can happen there.
"""
