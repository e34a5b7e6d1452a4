"""Loads exports as docs/export.md says: whole ones replace everything, increments are applied one after the other."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import json

from latchkey.subjects.exports.usecases.destinations import FolderDestination
from latchkey.subjects.exports.usecases.writer import WHAT, ExportOrder, PartLimits, parse, run
from latchkey.subjects.exports.wire import Format, Manifest
from tests.engine.fixtures import Core

Rows = list[dict[str, Any]]
OF_CUSTOMERS = ("transactions", "customers", "entitlements")


@dataclass
class Loaded:
    """What somebody has who applied all exports so far."""

    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    of_customers: dict[str, Rows] = field(default_factory=lambda: {what: [] for what in OF_CUSTOMERS})

    def take(self, folder: Path) -> None:
        manifest = manifest_of(folder)
        if manifest.kind == "whole":
            self.events, self.of_customers = {}, {what: [] for what in OF_CUSTOMERS}
        replaced = {one["customer_key"] for one in rows_of(folder, "changed_customers")}
        for what in OF_CUSTOMERS:
            kept = [one for one in self.of_customers[what] if one["customer_key"] not in replaced]
            self.of_customers[what] = kept + rows_of(folder, what)
        self.events |= {one["id"]: one for one in rows_of(folder, "events")}

    def sorted(self) -> dict[str, list[bytes]]:
        of_customers = {what: in_order(rows) for what, rows in self.of_customers.items()}
        return {**of_customers, "events": in_order(self.events.values())}


def in_order(rows: Iterable[dict[str, Any]]) -> list[bytes]:
    return sorted(json.encode(one) for one in rows)


def manifest_of(folder: Path) -> Manifest:
    return json.decode((folder / "manifest.json").read_bytes(), type=Manifest)


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def rows_of(folder: Path, what: str) -> Rows:
    return [
        json.decode(line) for path in sorted(folder.glob(f"{what}-*.jsonl")) for line in path.read_bytes().splitlines()
    ]


async def export(
    core: Core,
    root: Path,
    *,
    since: str | None = None,
    format: Format = "jsonl",
    what: tuple[str, ...] = WHAT,
    limits: PartLimits | None = None,
    with_tokens: bool = False,
) -> Path:
    order = ExportOrder(core.project_id, what, format, parse(since) if since else None, with_tokens)
    manifest = await run(core.database, order, FolderDestination(root), lambda: core.time, limits=limits)
    return root / core.project_id / manifest.id
