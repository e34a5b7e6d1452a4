"""The schema, version by version, run by `alembic`."""
