"""What somebody has to look at in a project. The dashboard lists problems, and alerts tell members of them."""

from enum import StrEnum

from msgspec import Struct


class ProblemKind(StrEnum):
    WEBHOOK = "webhook"
    STORE = "store"
    NOTIFICATIONS = "notifications"
    CERTIFICATE = "certificate"
    REVENUE = "revenue"


class ProjectProblem(Struct, frozen=True, kw_only=True):
    # The same as long as it lasts.
    id: str
    kind: ProblemKind
    # A sentence that is also true of what is over. Names in it are isolated.
    title: str
    words: str
    # Where to act: below the page of the project, with the words of the link. Empty: there is no such page.
    path: str = ""
    link: str = ""
    # Whether buyers or events are held up already.
    is_urgent: bool = False


def isolated(name: str) -> str:
    """A name that others have chosen, within a sentence: its direction cannot turn the sentence around."""
    return f"\u2068{name if len(name) <= 80 else name[:79] + '…'}\u2069"
