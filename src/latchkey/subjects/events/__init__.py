"""Lists of events for API, dashboard and command line, and the live tail. Begin with `usecases.py`."""
