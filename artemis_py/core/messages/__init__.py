"""Messages: the facts that the broker needs about one, and its native bytes unchanged."""
