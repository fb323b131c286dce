"""The parts of `splitbrain cluster`."""
