"""Models of the protocols, and the command that checks them: `make proof`."""
