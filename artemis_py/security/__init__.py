"""Logins and permissions: users, roles, permissions and SASL mechanisms, shared by every protocol."""
