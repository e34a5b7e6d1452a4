"""Stores that have no adapter: somebody else tells how a purchase stands."""
