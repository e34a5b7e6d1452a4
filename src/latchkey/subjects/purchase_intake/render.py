"""Connections and the journal as V2 shows them."""

from msgspec import UNSET

from latchkey.subjects.purchase_intake import wire
from latchkey.subjects.purchase_intake import wire as store_connections_wire
from latchkey.subjects.purchase_intake.rules import JournalEntry
from latchkey.subjects.purchase_intake.usecases.journal import name_of, subject_of
from latchkey.subjects.purchase_intake.usecases.store_connections import Connected


def credentials(one: Connected, base: str) -> store_connections_wire.StoreCredentials:
    """`base` is where the service is reached, such as https://billing.example.com."""
    row = one.row
    return store_connections_wire.StoreCredentials(
        app_id=row.app_id,
        project_id=row.project_id,
        store=row.store,
        credentials=row.shown,
        saved_at=row.saved_at,
        check=store_connections_wire.CredentialsCheck(
            result=row.check_result, message=row.check_message, checked_at=row.checked_at
        ),
        notification_url=base + one.notification_path,
        first_notification_at=row.first_notified_at,
        last_notification_at=row.last_notified_at,
    )


def notification(one: JournalEntry, *, trusted: bool, whole: bool = False) -> wire.StoreNotification:
    """`trusted` is somebody who may write. Others do not see what could be shown as a receipt: the payload, and
    purchase tokens."""
    return wire.StoreNotification(
        id=name_of(one),
        project_id=one.project_id,
        app_id=one.app_id,
        store=one.store,
        source=one.source,
        external_id=one.external_id,
        kind=one.kind,
        environment=one.environment,
        subject=subject_of(one, trusted=trusted),
        occurred_at=one.occurred_at,
        received_at=one.received_at,
        status=one.status,
        attempts=one.attempts,
        next_attempt_at=one.next_at if one.status == "waiting" else None,
        finished_at=one.finished_at,
        message=one.message,
        customer_id=one.app_user_id,
        event_ids=list(one.event_ids),
        checked=one.checked,
        payload=one.payload if whole and trusted else UNSET,
    )
