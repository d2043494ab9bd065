"""A mesh of real processes, real clients, and faults between them."""
