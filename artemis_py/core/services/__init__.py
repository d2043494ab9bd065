"""Services above routing, each of which goes with its module: staging, retained messages, the reaper, leases."""
