"""Sockets: listening, TLS, protocol detection, and the bridge between asyncio and sans-IO connections."""
