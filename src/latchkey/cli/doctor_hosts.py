"""What `latchkey doctor` says of a database with several hosts: who is the primary, and what a failover would lose."""

from __future__ import annotations

from latchkey.cli.finding import Finding
from latchkey.database_address import parse
from latchkey.storage.primary import Primary
from latchkey.storage.servers import Server, Silent


async def hosts(url: str) -> Finding | None:
    """None if the address names one host."""
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
    if not all(one.waits_for_standby for one in writable):
        remedy = (
            "Commits wait for no standby (synchronous_standby_names is empty, or synchronous_commit is off or local): "
            "a failover may lose purchases that were confirmed."
        )
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
