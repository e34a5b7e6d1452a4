"""The search box: one text, looked up everywhere in a project. Begin with `usecases.py`."""
