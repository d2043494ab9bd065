"""The wire of OpenWire: what may come when, and what it looks like in octets."""
