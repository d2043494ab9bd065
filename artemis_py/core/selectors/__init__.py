"""Selectors: the SQL-like conditions of JMS, parsed once and evaluated for each message."""
