"""What `splitbrain hunt` prints: its progress and its answer."""
