"""The consumer's own tables, in SQLite or PostgreSQL."""
