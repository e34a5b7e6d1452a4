"""Converts results of the rules to the types of `wire`."""
