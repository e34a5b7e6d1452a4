"""A project's programs and percentages, as JSON in its row. They are part of the catalog: changing them changes its
version."""

from __future__ import annotations

from msgspec import json

from latchkey.domain.tariff.fees import Fees
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_SAVE = query("save_fees")
_LOAD = query("load_catalog")
_FEES = json.Decoder(Fees)


def fees_of(body: bytes) -> Fees:
    return _FEES.decode(body)


async def load(connection: Connection, project_id: str) -> Fees | None:
    """None: there is no such project."""
    row = await connection.fetchrow(_LOAD, project_id)
    return None if row is None else fees_of(row["fees"])


async def save(connection: Connection, project_id: str, fees: Fees) -> bool:
    """False: there is no such project."""
    return await connection.fetchval(_SAVE, project_id, json.encode(fees)) is not None
