"""What users do with two brokers of a mesh, the same against Apache Artemis and against this broker."""
