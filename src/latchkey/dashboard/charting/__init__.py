"""The pages of charts: their addresses, tables and words."""
