"""A grant for many customers, and its terms."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from latchkey.domain.instants import Ms

State = Literal["draft", "running", "done", "stopped"]


class GrantTerms(Struct, frozen=True, kw_only=True):
    """What is granted, in the order in which `create_bulk_grant` takes it."""

    entitlement_id: str
    # A named length, or an instant; both None: for ever.
    duration: str | None
    ends_at: Ms | None
    # Whether customers who have the entitlement when their turn comes are left out.
    skip_holders: bool


class BulkGrant(GrantTerms, frozen=True, kw_only=True):
    project_id: str
    id: str
    state: State
    # Where its customers came from, in words.
    source: str
    actor: str
    created_at: Ms
    started_at: Ms | None
    finished_at: Ms | None
    total: int
    # Of the preview: how many have the entitlement already, and ids that nobody has.
    holders: int
    unknown_ids: Sequence[str]
    lease_until: Ms
    token: int
    # Outcomes so far; not counted in a list.
    granted: int = 0
    skipped: int = 0
    failed: int = 0

    @property
    def handled(self) -> int:
        return self.granted + self.skipped + self.failed


# Said of a filter if the lists did not have everybody: shortly after somebody new came, or after an import.
INCOMPLETE = "Some new customers were not in the lists yet: for them, make the preview again in a while"
