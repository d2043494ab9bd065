"""A client of OpenWire: bytes and time in, calls and bytes out. For tests, load tests and tools."""
