"""Deliveries, their queue and the webhooks they go to, as typed functions over SQL."""
