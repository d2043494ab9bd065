"""Connection routers: which broker serves which client."""
