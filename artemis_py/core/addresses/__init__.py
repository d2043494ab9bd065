"""Addresses, and accounting for the memory of their messages."""
