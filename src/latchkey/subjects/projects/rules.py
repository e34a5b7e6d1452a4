"""How the page of a purchase opens an app."""

import re

from latchkey.domain.refusal import Invalid

_DEEP_LINK = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]{1,49})://(?P<rest>[A-Za-z0-9._~:/-]{0,250})", re.ASCII)
# Of these a browser does something else than to open an app.
_NO_APPS = frozenset(
    {"http", "javascript", "vbscript", "data", "file", "blob", "about", "view-source", "ws", "wss", "ftp"}
)


def checked_deep_link(text: str) -> str:
    """A scheme of the app's own, or a universal link. Without a query: what the app needs to know is added there."""
    found = _DEEP_LINK.fullmatch(text)
    if found is None or found["scheme"] in _NO_APPS or (found["scheme"] == "https" and not found["rest"].strip("/")):
        raise Invalid(
            "A deep link is a scheme of your app, such as myapp://, or an https link that opens it; without a query.",
            param="deep_link",
        )
    return text
