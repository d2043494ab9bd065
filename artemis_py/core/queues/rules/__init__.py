"""Rules that make kinds of queues: what comes in, and which consumer gets it."""
