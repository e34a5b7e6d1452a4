"""Secret and public API keys: made, limited, replaced, revoked. Begin with `usecases.py`. `engine/admission.py` checks
the key of each request, by the rules of `domain/access/api_key.py`."""
