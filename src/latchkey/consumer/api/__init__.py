"""The HTTP endpoints of the consumer, and the guard of an app's own routes."""
