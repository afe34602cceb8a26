"""Brings a database to the schema of this version, step by step. A new step: see README in this folder."""
