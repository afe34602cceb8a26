"""Baton: run agents on a Baton server, and host their functions from here."""
