"""With `Latchkey-Shape: vendor`, every example of V2 has exactly the vendor's fields."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from latchkey.http.vendor_shape import FIELDS, cut
from tests.contract.vendor_fields import DELETED, DELETED_OBJECTS, OPTIONAL, OURS, REQUIRED

EXAMPLES = sorted((Path(__file__).parents[2] / "contract" / "v2").glob("*.json"))
FREE = {"metadata", "additional_data"}


def shaped(path: Path) -> Any:
    body = cut(path.read_bytes().strip())
    return json.decode(body) if body else None


def objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for one in value:
            yield from objects(one)
    elif isinstance(value, dict):
        if "object" in value:
            yield value
        if value.get("object") not in OURS:
            for field, one in value.items():
                if field not in FREE:
                    yield from objects(one)


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_has_exactly_the_vendors_fields(path: Path) -> None:
    for one in objects(shaped(path)):
        name = one["object"]
        if name in OURS:
            continue
        if one.keys() == DELETED and name in DELETED_OBJECTS:
            continue
        assert name in REQUIRED, one
        assert one.keys() >= REQUIRED[name], (name, REQUIRED[name] - one.keys())
        assert one.keys() <= REQUIRED[name] | OPTIONAL[name], (name, one.keys() - REQUIRED[name] - OPTIONAL[name])


def test_every_object_of_the_vendor_is_in_an_example_and_in_the_table() -> None:
    seen = {one["object"] for path in EXAMPLES for one in objects(shaped(path))}
    assert REQUIRED.keys() <= seen
    renamed = {"webhook_integration" if name == "webhook" else name: fields for name, fields in FIELDS.items()}
    assert renamed == {name: REQUIRED[name] | OPTIONAL[name] for name in REQUIRED.keys() - {"error"}}


def test_what_the_operator_wrote_is_not_cut() -> None:
    mine = {"object": "customer", "colour": "green"}
    offering = {"object": "offering", "id": "ofrng_1", "metadata": mine, "colour": "green"}
    assert json.decode(cut(json.encode(offering))) == {"object": "offering", "id": "ofrng_1", "metadata": mine}
