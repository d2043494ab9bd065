"""What OpenWire commands mean to the broker: clients' words mapped onto sessions, addresses and queues."""
