"""Cursors: how consumers that do not take the head of a queue walk through it."""
