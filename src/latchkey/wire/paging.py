"""Pages of lists in V2: the items, and the path of the next page."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar
from urllib.parse import quote

from latchkey.wire import v2

DEFAULT_LIMIT = 20
LARGEST_LIMIT = 100
_PLAIN = re.compile(r"[A-Za-z0-9_.~-]+")

Item = TypeVar("Item")


def page(
    items: Sequence[Item],
    name: Callable[[Item], str],
    path: str,
    limit: int,
    starting_after: str | None,
    filters: Mapping[str, str] | None = None,
) -> v2.Page[Item]:
    """One page of `items`, which are sorted by name. A cursor name that no longer exists still marks a position.
    `filters` are the other query parameters, which the next page needs too."""
    if starting_after is not None:
        items = [item for item in items if name(item) > starting_after]
    if len(items) <= limit:
        return v2.Page(items=list(items), next_page=None, url=path)
    shown = list(items[:limit])
    return v2.Page(items=shown, next_page=next_path(path, limit, name(shown[-1]), filters), url=path)


def next_path(path: str, limit: int, last: str, filters: Mapping[str, str] | None = None) -> str:
    """The path of the page after `last`. Encoded once: with a cursor encoded twice a client would read page 1
    forever."""
    asked = f"limit={limit}&" if limit != DEFAULT_LIMIT else ""
    chosen = "".join(f"{key}={encoded(value)}&" for key, value in (filters or {}).items())
    return f"{path}?{chosen}{asked}starting_after={encoded(last)}"


def path_of(project_id: str, customer_id: str) -> str:
    return _customers_path(project_id) + encoded(customer_id)


@lru_cache(maxsize=1024)
def _customers_path(project_id: str) -> str:
    return f"/v2/projects/{encoded(project_id)}/customers/"


def encoded(text: str) -> str:
    # Most ids need no encoding, and this check is four to ten times as fast as quoting.
    if text.isascii() and text.isalnum():
        return text
    return text if _PLAIN.fullmatch(text) else quote(text, safe="")


def project_path(project_id: str, *parts: str) -> str:
    return "/".join(("/v2/projects", *(quote(part, safe="") for part in (project_id, *parts))))
