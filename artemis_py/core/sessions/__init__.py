"""Sessions: the interface of the core to a protocol, with the rights of one client."""
