"""Makes external strings storable in every database, while different strings stay different."""

from __future__ import annotations

import hashlib
import re

# Long enough for every id in use, short enough for an index row of any database.
LONGEST = 255
# PostgreSQL stores no NUL, and no database stores a lone surrogate as UTF-8.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_MARK = "~"


def storable(text: str, longest: int = LONGEST) -> str:
    """The text itself if it can be stored. Otherwise its beginning and a hash of the whole."""
    cleaned = clean(text)
    if cleaned == text and len(text) <= longest:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return cleaned[: longest - len(digest) - len(_MARK)] + _MARK + digest


def clean(text: str) -> str:
    """The text with U+FFFD for every character that cannot be stored, at any length."""
    return _UNSTORABLE.sub("\ufffd", text)
