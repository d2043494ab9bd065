"""Real clients against a real broker: nothing here imports the broker's code."""
