"""Selectors: the SQL-like conditions of JMS, parsed once and asked for each message."""
