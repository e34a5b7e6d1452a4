"""The schema, version by version. `alembic` runs them; nobody needs to know."""
