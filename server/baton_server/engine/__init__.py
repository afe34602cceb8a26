"""Engines: adapters of `ports.engine` that keep turns driven."""
