"""Rules that define kinds of queues: which messages come in, and which consumer gets them."""
