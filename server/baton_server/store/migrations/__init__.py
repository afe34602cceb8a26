"""Brings a database to the schema of this version, step by step.

A step is a file in `versions/`, named by its number, that changes what the one before left; one that was released
is not changed any more. A test compares where the steps lead with `sql/schema.py`.
"""
