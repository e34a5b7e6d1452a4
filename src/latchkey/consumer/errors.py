"""What can go wrong when a consumer is put together.

ConsumerError
└── SettingsError     settings that are missing, malformed or unsafe
"""

from __future__ import annotations


class ConsumerError(Exception):
    """The consumer cannot work as it was asked to."""


class SettingsError(ConsumerError):
    """Some settings are missing, malformed or unsafe; every one of them is listed."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("\n".join(f"{name} {wrong}" for name, wrong in problems))
        # The setting's name and what is wrong with it.
        self.problems = problems
