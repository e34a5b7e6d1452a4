"""The app stores. Each adapter turns its store's format into a snapshot; no other part knows the format."""
