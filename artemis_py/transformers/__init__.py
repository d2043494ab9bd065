"""Transformers of diverts: those that are shipped, and what a package needs that brings others (`docs/diverts.md`)."""

from artemis_py.core.messages.draft import Draft, Properties, Transformer, TransformerFactory, Unchanged

__all__ = ["Draft", "Properties", "Transformer", "TransformerFactory", "Unchanged"]
