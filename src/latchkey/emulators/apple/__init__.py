"""A pretend App Store."""
