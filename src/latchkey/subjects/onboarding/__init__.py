"""The first steps in a project, and which are done. Begin with `usecases.py`."""
