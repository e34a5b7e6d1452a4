"""Delivers committed events to webhooks over HTTPS."""
