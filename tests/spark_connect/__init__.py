"""The Spark connector over Spark Connect and in a notebook."""
