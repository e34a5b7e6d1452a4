"""The app stores. Each adapter verifies, parses and ends in a snapshot; nothing above knows a store's words."""
