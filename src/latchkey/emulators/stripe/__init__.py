"""A pretend Stripe."""
