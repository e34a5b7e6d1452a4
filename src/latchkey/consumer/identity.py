"""The external user id, by which the app knows a user."""

from __future__ import annotations

from collections.abc import Mapping

EMAIL = "$email"
DISPLAY_NAME = "$displayName"


def external_user_id(attributes: Mapping[str, str], app_user_id: str) -> str:
    """The `$email` attribute, else `$displayName`, else the app user id."""
    return attributes.get(EMAIL) or attributes.get(DISPLAY_NAME) or app_user_id


def email(attributes: Mapping[str, str]) -> str | None:
    return attributes.get(EMAIL) or None
