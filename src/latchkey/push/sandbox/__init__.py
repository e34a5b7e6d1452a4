"""A push provider of one's own: the same protocol, devices that connect, and faults on request."""
