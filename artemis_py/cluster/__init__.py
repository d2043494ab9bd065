"""The mesh: brokers that share their work. Octets, records and time in, octets out (docs/mesh.md)."""
