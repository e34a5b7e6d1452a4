"""How long a transaction waits for a lock."""

from __future__ import annotations

from typing import Any


async def wait_for_locks_at_most(connection: Any, milliseconds: int, *, distributed: bool) -> None:
    """Until the transaction ends; 0 means for ever. In a distributed database also on the nodes, which do not have the
    coordinator's settings: a change of a table waited there until its statement was cancelled, and everybody who used
    the table waited behind it.

    Each command is one message, because Citus passes the text of the whole message on."""
    if distributed:
        await connection.execute("set local citus.propagate_set_commands = 'local'")
    await connection.execute(f"set local lock_timeout = {int(milliseconds)}")
    if distributed:
        await connection.execute("set local citus.propagate_set_commands = 'none'")
