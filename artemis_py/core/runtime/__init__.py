"""Tools of the whole core: timers, background work, the work meter, accounts, rights and events."""
