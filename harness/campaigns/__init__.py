"""What one does with tests: compose, record, judge, replay, shrink, hunt."""
