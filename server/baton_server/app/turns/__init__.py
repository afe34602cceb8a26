"""Driving turns: what has come is fed, what follows is committed, what is owed is performed."""
