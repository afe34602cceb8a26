"""The door to a server: its services, the way to them, sessions."""
