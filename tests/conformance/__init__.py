"""The checklist of semantics that are easy to miss (reference §9.2)."""
