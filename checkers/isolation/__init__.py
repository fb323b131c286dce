"""Judging in a separate process: a file or a checker may end that process, and the run still gets a verdict.

`watched` looks at a process from outside, `confined` has tasks done by one that may die of any of them, and `judging`
makes a verdict of everything that can happen there.
"""
