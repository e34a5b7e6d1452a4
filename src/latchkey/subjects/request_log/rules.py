"""How much of the log of requests is read for a page."""

# Rows that a page looks at, for those that fit its filters.
EXAMINED = 20_000
