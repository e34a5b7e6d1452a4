"""V2: one module per resource, each with its `router`."""
