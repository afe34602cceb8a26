"""Samples of the Agents SDK's documentation, with nothing changed but the package that they import from."""
