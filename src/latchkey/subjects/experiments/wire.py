"""Experiments of V2."""

from typing import Literal

from msgspec import Struct


class Variant(Struct, frozen=True, kw_only=True):
    id: str
    weight: int
    # The offering that its customers see; null is the current one.
    offering_id: str | None


class Experiment(Struct, frozen=True, kw_only=True):
    object: Literal["experiment"] = "experiment"
    id: str
    project_id: str
    name: str
    variants: list[Variant]
    created_at: int
