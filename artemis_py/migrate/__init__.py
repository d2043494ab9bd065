"""Turns configurations of other brokers into a `broker.xml`, and says for each line what became of it.

`sources` lists the formats; each has a package of its own, which reads a file into a `Target` and adds a `Finding` for
everything that it read. `writing` writes the target, after the broker itself has checked it.
"""
