"""Data that crosses between the service and its consumers: events, V1 and V2, headers, pages of lists. Begin with
`event.py`. Replies of one subject are in its own `wire`."""
