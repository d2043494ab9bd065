"""Attributes and operations for administrators, and the ways to reach them.

So far there is one way: messages to the management address. Nothing here knows a protocol or a socket. Names that a
client sends are looked up in tables, never on objects.
"""
