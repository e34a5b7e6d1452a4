"""Builds the site of the documentation: `make docs` (decision 0108)."""
