"""Finders: hosts and ports where other members may be. They only hint; who is a member, members say (mesh §2.4)."""
