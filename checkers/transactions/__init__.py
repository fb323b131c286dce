"""Isolation of transactions: which anomalies a history shows, and which consistency models it rules out."""
