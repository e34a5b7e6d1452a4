"""Secret keys whose rules refused a request in this process: expired, or used from another network.

The statement that looks up a key also counts the request, and only then the rules are checked. A stolen key that is
tried from elsewhere would use up the limit of its owner. So from the second refusal on a request is checked here first,
with a statement that counts nothing. Requests with other keys never come here.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from latchkey.domain.instants import Ms
from latchkey.storage.database import Database
from latchkey.storage.engine import admission
from latchkey.storage.engine.admission import RuledKey
from latchkey.usecases.engine.admission import Caller
from latchkey.usecases.engine.batch import Batch

# Only keys that exist come in here. Past this many, the first ones are counted again.
_MOST = 1_000


class Refused(NamedTuple):
    # With its rules as they are now. None: the key was revoked.
    caller: Caller | None


class RefusedKeys:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._callers: dict[bytes, Caller] = {}
        self._batch: Batch[bytes, RuledKey | None] = Batch(self._ask)

    def __bool__(self) -> bool:
        return bool(self._callers)

    def add(self, key_hash: bytes, caller: Caller) -> None:
        if len(self._callers) >= _MOST:
            self._callers.pop(next(iter(self._callers)))
        self._callers[key_hash] = caller

    async def refused(self, key_hash: bytes, address: str, now: Ms) -> Refused | None:
        """The key, if its rules refuse this request as they stand in the database now."""
        caller = self._callers.get(key_hash)
        if caller is None or caller.rules is None or caller.rules.allows(address, now):
            return None
        key = await self._batch.ask(key_hash)
        rules = key.rules if key is not None else None
        if rules is None:
            self._callers.pop(key_hash, None)
            return Refused(None) if key is None else None
        self._callers[key_hash] = caller = replace(caller, rules=rules)
        return None if rules.allows(address, now) else Refused(caller)

    async def _ask(self, hashes: list[bytes]) -> list[RuledKey | None]:
        async with self._database.at_hand() as connection:
            found = await admission.rules_of_keys(connection, list(set(hashes)))
        return [found.get(key_hash) for key_hash in hashes]
