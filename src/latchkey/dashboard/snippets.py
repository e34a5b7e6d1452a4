"""Text with something filled in: commands to copy, with our address and never a key, and ids in sentences."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from msgspec import json

from latchkey.dashboard.visit import Visit


def curl(visit: Visit, path: str, body: dict[str, Any]) -> str:
    """The call of the API that does what the page is about."""
    host = visit.request.headers.get("host", "localhost")
    address = f"https://{host}/v2/projects/{quote(visit.project_id, safe='')}/{path}"
    return "\n".join(
        (
            f'curl -X POST "{address}" \\',
            '  -H "Authorization: Bearer $LATCHKEY_KEY" -H "Content-Type: application/json" \\',
            f"  -d '{json.encode(body).decode()}'",
        )
    )


def isolated(text: str) -> str:
    """Text from outside within a sentence of ours: its direction cannot turn the sentence around."""
    return f"\u2068{text}\u2069"
