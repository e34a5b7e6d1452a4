"""What a store has for sale beside the catalog: listed with the differences, and taken over.

Begin with `rules.py`, which compares the two. A store's words stay in `stores/`; what is taken over is saved by the use
cases of the catalog. Why it is so: `docs/architecture/catalog.md`.
"""
