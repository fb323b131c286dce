"""One test on a backend, from nothing to nothing: nodes up, faults, healing, last reads, and all is gone."""
