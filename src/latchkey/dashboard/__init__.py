"""Pages for the people who run an app: rendered on the server, over the same use cases as the API."""
