"""The operator's web pages: rendered on the server, with the same use cases as the API."""
