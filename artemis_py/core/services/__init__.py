"""Services above routing, each in a module that can be removed: staging, retained messages, the reaper, leases."""
