"""What `latchkey doctor` says of a database with several hosts: who is the primary, and what a failover would lose."""

from __future__ import annotations

from typing import Any

from latchkey.cli.finding import Finding
from latchkey.database_address import parse
from latchkey.storage.primary import Primary
from latchkey.storage.servers import Server, Silent, confirms


async def hosts(url: str, connection: Any) -> Finding | None:
    """None if the address names one host. `connection` is to the primary."""
    address = parse(url)
    if not address.is_cluster:
        return None
    answers = await Primary(address).survey()
    words = ", ".join(f"{one.host.name} {_role(one)}" for one in answers)
    writable = [one for one in answers if isinstance(one, Server) and one.takes_changes]
    if len(writable) > 1:
        oldest = min(writable, key=lambda one: one.timeline)
        remedy = f"Stop {oldest.host.name} and make it a standby again: docs/failover.md. Latchkey does not use it."
        return Finding("bad", "hosts", words, remedy)
    names, level = await confirms(connection)
    if not names or level in ("off", "local"):
        setting = "synchronous_standby_names is empty" if not names else f"synchronous_commit is {level}"
        remedy = f"Commits wait for no standby ({setting}): a failover may lose purchases that were confirmed."
        return Finding("unknown", "hosts", words, remedy)
    if len(answers) - len(writable) > sum(isinstance(one, Server) and one.is_standby for one in answers):
        return Finding("unknown", "hosts", words, "Until the others are standbys again, nobody can take over.")
    return Finding("good", "hosts", f"{words}; commits wait for a standby")


def _role(one: Server | Silent) -> str:
    if isinstance(one, Silent):
        return one.reason
    if one.is_standby:
        return "is a standby"
    return f"{'takes' if one.takes_changes else 'refuses'} changes (timeline {one.timeline})"
