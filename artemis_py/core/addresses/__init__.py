"""Addresses, and the memory that their messages take."""
