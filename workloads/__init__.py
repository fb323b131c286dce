"""What clients do, and which checkers judge it."""
