"""The queue of deliveries as a worker works on it: claim, dispatch, record."""
