"""Messages: what the broker knows of one, and its native bytes untouched."""
