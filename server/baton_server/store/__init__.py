"""Stores: adapters of `ports.store`. `memory` is the fake and the specification, `sqlite` is durable.

Nothing is imported here, so that who wants the fake does not load SQLAlchemy.
"""
