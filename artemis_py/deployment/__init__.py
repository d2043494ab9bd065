"""Turns a configuration into a plan of changes and applies it; starts the parts of a broker in order."""
