"""The reference consumer: receives the service's events and keeps a local copy of users' entitlements."""

from latchkey.consumer.billing import View
from latchkey.consumer.consumer import Consumer
from latchkey.consumer.errors import AccessUnknownError, ConsumerError, SettingsError
from latchkey.consumer.guard import AccessRefused
from latchkey.consumer.record import Entitlement, LocalCopy, Subscription
from latchkey.consumer.settings import Settings
from latchkey.consumer.storage.jobs import Job, NewJob

__all__ = [
    "AccessRefused",
    "AccessUnknownError",
    "Consumer",
    "ConsumerError",
    "Entitlement",
    "Job",
    "LocalCopy",
    "NewJob",
    "Settings",
    "SettingsError",
    "Subscription",
    "View",
]
