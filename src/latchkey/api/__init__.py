"""HTTP: V1, V2 and management, built on the use cases."""
