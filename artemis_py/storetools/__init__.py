"""A store seen from outside of a broker: what `artemis-py data` does, one module an idea."""
