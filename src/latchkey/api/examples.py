"""Examples of replies, for the OpenAPI document: the files of `contract/`.

A test compares these files with the real replies, so the document cannot show what the service does not send. A wheel
has them inside the package; a checkout has them beside it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from msgspec import json

_PROJECT = "/v2/projects/{project_id}"


def stem(path: str, method: str, status: str) -> str:
    """The folder and the beginning of the name of an example: `v2/customers.customer_id.get.200`."""
    words = [word.strip("{}") for word in path.removeprefix(_PROJECT).split("/") if word]
    folder = path.split("/")[1]
    if folder == "rcbilling":
        words = words[2:]
    elif words[:1] in (["v1"], ["v2"]):
        words = words[1:]
    return f"{folder}/{'.'.join([*(words or ['project']), method.lower(), status])}"


def examples(path: str, method: str, status: str) -> dict[str, Any]:
    """By name: what a reply with this status looks like. Empty where no file shows one, or it has no body."""
    start = stem(path, method, status)
    return {
        name.removeprefix(f"{start}.") if name != start else "example": {"value": json.decode(body)}
        for name, body in _files().items()
        if name == start or (name.startswith(f"{start}.") and _is_variant(name[len(start) + 1 :]))
    }


def _is_variant(rest: str) -> bool:
    """Of `receipts.post.400.invalid_receipt` the last word is a variant; of a longer path it would be more words."""
    return "." not in rest


@cache
def _files() -> dict[str, bytes]:
    folder = _folder()
    if folder is None:
        return {}
    return {
        f"{room.name}/{one.name.removesuffix('.json')}": body
        for room in folder.iterdir()
        if room.is_dir()
        for one in sorted(room.iterdir(), key=lambda file: file.name)
        if one.name.endswith(".json") and (body := one.read_bytes())
    }


def _folder() -> Traversable | None:
    packaged = files("latchkey") / "contract"
    beside = Path(__file__).parents[3] / "contract"
    return packaged if packaged.is_dir() else beside if beside.is_dir() else None
