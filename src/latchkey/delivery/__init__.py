"""Outbox to HTTPS: claim, guard, sign, send, record, retry, pause."""
