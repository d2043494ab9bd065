"""The operations of `artemis-py data` on a store from outside of a broker, one module each."""
