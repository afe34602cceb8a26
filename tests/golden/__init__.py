"""Stores as released versions left them, with turns open: each later version goes on from them."""
