"""The configuration that is shipped: broker.xml, its schema, users and roles."""
