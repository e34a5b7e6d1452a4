"""The rules of the local copy. Pure: no clock, no database, no network."""
