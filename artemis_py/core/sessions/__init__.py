"""Sessions: what a protocol holds towards the core, with the rights of one client."""
