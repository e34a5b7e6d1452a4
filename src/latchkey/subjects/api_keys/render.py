"""API keys as V2 shows them."""

from msgspec import UNSET, UnsetType

from latchkey.engine.storage.keys import ApiKey
from latchkey.subjects.api_keys import wire
from latchkey.subjects.api_keys.usecases import is_sandbox
from latchkey.wire.attributes import from_attributes


def api_key(project_id: str, one: ApiKey, plaintext: str | UnsetType = UNSET) -> wire.ApiKey:
    return from_attributes(wire.ApiKey, one, project_id=project_id, masked_key=one.hint, key=plaintext)


def public_api_key(project_id: str, one: ApiKey) -> wire.PublicApiKey:
    environment = "sandbox" if is_sandbox(one.hint) else "production"
    return from_attributes(
        wire.PublicApiKey, one, project_id=project_id, masked_key=one.hint, key=one.plaintext, environment=environment
    )
