"""Stripe Billing: what it sends, and what its API answers."""
