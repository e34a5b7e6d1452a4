"""The reference consumer: receives the service's events and keeps a local copy of users' entitlements.

The names in `__all__` are public, and keep working until a release whose notes say otherwise. Everything else in this
package is private and may change in any release.
"""

from latchkey.consumer.api.access_guard import AccessRefused, Guard
from latchkey.consumer.billing_service import Checked, View
from latchkey.consumer.consumer_errors import AccessUnknownError, ConsumerError, SettingsError
from latchkey.consumer.consumer_settings import Settings
from latchkey.consumer.reference_consumer import Consumer
from latchkey.consumer.rules.record import Entitlement, LocalCopy, Subscription
from latchkey.consumer.storage.jobs import Job, NewJob

__all__ = [
    "AccessRefused",
    "AccessUnknownError",
    "Checked",
    "Consumer",
    "ConsumerError",
    "Entitlement",
    "Guard",
    "Job",
    "LocalCopy",
    "NewJob",
    "Settings",
    "SettingsError",
    "Subscription",
    "View",
]
