"""What a look at the feeds of all projects says to a roller."""

from __future__ import annotations

from msgspec import Struct


class Outlook(Struct, frozen=True):
    # Some project has events or marks that the roller has not processed.
    behind: bool
    # The roller has not started some project.
    unstarted: bool
    # The last key that any customer got.
    newest: int
