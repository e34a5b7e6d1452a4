"""A pretend Google Play."""
