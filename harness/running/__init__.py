"""One test on a backend: deploy nodes, inject faults, heal, final reads, and remove everything."""
