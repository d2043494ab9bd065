"""Connections that this broker makes to other brokers of any make, and the links on them: see `connection`."""
