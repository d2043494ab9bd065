"""Who may log in, and what they may do: users, roles, permissions and SASL mechanisms, shared by every protocol."""
