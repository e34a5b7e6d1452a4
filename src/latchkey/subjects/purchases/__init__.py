"""Subscriptions and purchases by id, actions on them, and snapshots of stores without an adapter. Begin with
`usecases/store_actions.py`."""
