"""What the search of the dashboard finds."""

from typing import Literal

from msgspec import Struct

Kind = Literal["webhook", "key", "app", "product", "entitlement", "offering", "experiment"]


class Named(Struct, frozen=True):
    kind: Kind
    id: str
    name: str
