"""What an administrator may read and do, as named attributes and operations, and the ways to reach them.

So far one way: messages to the management address. Nothing here knows a protocol or a socket; names that a
client sends are looked up in tables, never on objects.
"""
