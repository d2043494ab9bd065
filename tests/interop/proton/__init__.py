"""Qpid Proton against the broker."""
