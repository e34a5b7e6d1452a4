"""Push notifications: the provider's client, and a sandbox provider that speaks the same protocol."""
