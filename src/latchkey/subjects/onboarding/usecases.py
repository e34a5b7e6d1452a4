"""The first steps in a project, and which of them are done."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from latchkey.database.pool import Database
from latchkey.domain.instants import Ms
from latchkey.subjects.onboarding import storage
from latchkey.subjects.webhooks.usecases import registry

Step = Literal["store", "product", "test_event", "delivery"]
STEPS: Final[tuple[Step, ...]] = get_args(Step)

# Pages of the menu that this project has no use for yet.
unused_parts = storage.unused


@dataclass(frozen=True, slots=True)
class Checklist:
    done: frozenset[str]

    @property
    def left(self) -> int:
        return len(STEPS) - len(self.done)


async def checklist(database: Database, project_id: str) -> Checklist | None:
    """None if everything is done, or somebody has dismissed it. Then this is a single lookup."""
    async with database.acquire() as connection:
        kept = await storage.load(connection, project_id)
        if kept.dismissed or kept.done >= set(STEPS):
            return None
        done = kept.done | await storage.found(connection, project_id)
        if "delivery" not in done and await registry.has_delivered(connection, project_id):
            done |= {"delivery"}
        if done != kept.done:
            # A step stays done: a product that is deleted later was made all the same.
            await storage.keep(connection, project_id, sorted(done), None)
    return Checklist(done) if done < set(STEPS) else None


async def dismiss(database: Database, project_id: str, now: Ms) -> None:
    """For everybody in the project, for good."""
    await storage.keep(database, project_id, None, now)
