"""Ports: what the use cases need of the world, as Protocols in the core's types. No implementation here."""
