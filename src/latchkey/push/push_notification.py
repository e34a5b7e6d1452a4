"""A notification, and the result of sending it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PushNotification:
    """Texts by language code. Providers use `en` for languages without a text."""

    contents: Mapping[str, str]
    headings: Mapping[str, str]

    def __post_init__(self) -> None:
        if not any(text.strip() for text in self.contents.values()):
            raise ValueError("a notification needs a text in at least one language")


@dataclass(frozen=True, slots=True)
class PushResult:
    """What the provider accepted. One notification may take several calls, because a call takes 2,000 ids.

    `invalid_player_ids` do not exist and can be deleted. `unsubscribed_player_ids` were in a call that reached nobody:
    they may exist with notifications turned off, so they are worth another attempt later.
    """

    notification_ids: tuple[str, ...] = ()
    invalid_player_ids: tuple[str, ...] = ()
    unsubscribed_player_ids: tuple[str, ...] = ()

    @property
    def anybody(self) -> bool:
        return bool(self.notification_ids)

    @classmethod
    def combined(cls, parts: Iterable[PushResult]) -> PushResult:
        parts = tuple(parts)
        return cls(
            tuple(id for part in parts for id in part.notification_ids),
            tuple(id for part in parts for id in part.invalid_player_ids),
            tuple(id for part in parts for id in part.unsubscribed_player_ids),
        )
