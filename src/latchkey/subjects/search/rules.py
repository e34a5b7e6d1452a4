"""What the search of the dashboard finds."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["webhook", "key", "app", "product", "entitlement", "offering", "experiment"]


@dataclass(frozen=True, slots=True)
class Named:
    kind: Kind
    id: str
    name: str
