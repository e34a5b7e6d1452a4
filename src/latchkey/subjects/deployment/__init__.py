"""The database of the whole deployment: nodes, sizes, standbys, and what needs an operator. Begin with `rules.py`."""
