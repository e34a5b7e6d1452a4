"""The errors of a consumer.

ConsumerError
├── SettingsError        settings that are missing, malformed or unsafe
└── AccessUnknownError   neither the service nor a local record can tell whether a user has access
"""


class ConsumerError(Exception):
    """Base class of the consumer's errors."""


class SettingsError(ConsumerError):
    """Some settings are missing, malformed or unsafe; every one of them is listed."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("\n".join(f"{name} {wrong}" for name, wrong in problems))
        # The setting's name and what is wrong with it.
        self.problems = problems


class AccessUnknownError(ConsumerError):
    """Whether the user has access is not known now. The message says why, and contains no secret."""
