"""Paths as they were sent: every segment is percent-decoded exactly once, here and nowhere else."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from latchkey.api.errors import InvalidAppUserId, Version

_MALFORMED = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class MalformedPath(InvalidAppUserId):
    """A segment of the path is not a valid id."""


def segments_of(raw_path: bytes) -> list[str]:
    """The decoded segments of a path. One with an encoded `/` or NUL, or invalid UTF-8, is refused."""
    if b"%" not in raw_path:
        try:
            return raw_path[1:].decode("ascii").split("/")
        except UnicodeDecodeError:
            pass
    if _MALFORMED.search(raw_path):
        raise MalformedPath("The path has a '%' that is not followed by two hexadecimal digits.", param="path")
    return [_segment(segment) for segment in raw_path[1:].split(b"/")]


def _segment(raw: bytes) -> str:
    try:
        segment = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedPath("An id in the path is not valid UTF-8.", param="path") from None
    if "/" in segment:
        raise MalformedPath("An id in the path contains an encoded '/'; ids cannot contain one.", param="path")
    if "\0" in segment:
        raise MalformedPath("An id in the path contains a NUL character.", param="path")
    return segment


def version_of(raw_path: bytes) -> Version:
    """Whose error bodies a path gets. `/rcbilling/` belongs to V1, because apps call it; all other paths are V2."""
    return "v1" if raw_path[:4] == b"/v1/" or raw_path == b"/v1" or raw_path[:11] == b"/rcbilling/" else "v2"
