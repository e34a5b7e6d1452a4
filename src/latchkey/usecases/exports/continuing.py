"""Continuing after the last export at a destination: its manifest says where the next increment begins."""

from __future__ import annotations

from msgspec import MsgspecError, json

from latchkey.domain.refusal import Invalid
from latchkey.usecases.exports.cursor import Cursor, parse
from latchkey.usecases.exports.destination import Destination
from latchkey.usecases.exports.engine import Order
from latchkey.wire.exports import Manifest
from latchkey.wire.rows import SCHEMA_VERSION

_DECODER = json.Decoder(Manifest)


async def last_cursor(destination: Destination, order: Order) -> Cursor | None:
    """The cursor of the last export there that holds all that is wanted now. None: there is none, so export
    everything."""
    async for content in destination.manifests(order.project_id):
        try:
            manifest = _DECODER.decode(content)
            cursor = parse(manifest.cursor)
        except (MsgspecError, Invalid):
            continue
        if (
            manifest.schema_version == SCHEMA_VERSION
            and manifest.format == order.format
            and manifest.with_tokens == order.with_tokens
            and set(order.what) <= set(manifest.what)
        ):
            return cursor
    return None
