"""HTTP: V1, V2 and management, over the use cases."""
