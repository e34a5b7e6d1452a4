"""Selling on web pages: a checkout from its start to the purchase."""
