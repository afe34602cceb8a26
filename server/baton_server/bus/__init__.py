"""Buses: adapters of `ports.bus`."""
