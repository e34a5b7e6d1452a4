"""A simulated push provider: the same protocol, devices that connect, and faults on request."""
