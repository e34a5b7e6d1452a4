"""`/docs`, the API's reference, and its console: a member of a project tries an operation with the rights of their
session.

**Begin with** `rules.py`: what a role may send. The reference is in `api.py` and `reference.*`. Its script asks
`page.py` who is signed in, and sends there what they want to try. The request then goes through the whole application,
as one with a key would.
"""
