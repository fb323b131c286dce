"""A night: a matrix of tests within a budget, and what is said of it in the morning."""
