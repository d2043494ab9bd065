"""Metrics of the broker for Prometheus: what is counted, and its text. Nothing here knows HTTP."""
