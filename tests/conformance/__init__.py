"""The checklist of semantics that are easy to miss (artemis-model §9.2)."""
