"""Channels to a server, and when to try again."""
