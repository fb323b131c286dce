"""What the parts of a test are to each other: a test, its clients and systems, deployments, faults, time."""
