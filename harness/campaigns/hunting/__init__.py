"""The parts of `splitbrain hunt`: one trial, many of them, what they add up to, and what is kept of them."""
