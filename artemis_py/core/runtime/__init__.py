"""What all rooms work with: timers, background work, the work meter, rights and events."""
