"""A customer's life, and the one question at each of its steps: do V1, V2, webhook and the consumer's copy agree?"""

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from conformance.consumer import Consumer
from conformance.https import Server, wait_for
from conformance.service import Service


def milliseconds(text: str) -> int:
    """Of a date as V1 and events write it: whole seconds, with Z."""
    assert len(text) == len("2027-01-15T08:00:00Z"), text
    assert text.endswith("Z"), text
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def is_active(entitlement: dict[str, Any], now_ms: int) -> bool:
    expires = entitlement.get("expires_date")
    return expires is None or milliseconds(expires) > now_ms


# The consumer's status after an event, if the customer has access; `active` after all others.
STATUSES = {
    "TRIAL_STARTED": "trial",
    "SUBSCRIPTION_PAUSED": "paused",
    "CANCELLATION": "cancelled",
    "BILLING_ISSUE": "billing_issue",
}


# The dates that V1 has of a subscription after an event, and that are null after what sets it right.
_DATES = {
    "CANCELLATION": {"unsubscribe_detected_at"},
    "TRIAL_CANCELLED": {"unsubscribe_detected_at"},
    "BILLING_ISSUE": {"billing_issues_detected_at", "grace_period_expires_date"},
    "SUBSCRIPTION_PAUSED": {"auto_resume_date"},
    "REFUND": {"refunded_at"},
    "INITIAL_PURCHASE": set(),
    "RENEWAL": set(),
    "UNCANCELLATION": set(),
    "REFUND_REVERSED": set(),
}
_ALL_DATES = {name for names in _DATES.values() for name in names}


@dataclass(frozen=True)
class World:
    service: Service
    receiver: Server
    consumer: Consumer

    def customer(self, id: str | None = None) -> "Customer":
        return Customer(self, id or str(uuid.uuid4()))


@dataclass(frozen=True)
class Customer:
    world: World
    id: str

    def act(self, action: str, **more: Any) -> list[dict[str, Any]]:
        """An action in the test store; gives its events as they were delivered."""
        wanted = {"action": action, "app_user_id": self.id, **more}
        told = self.world.service.call("POST", "test_store/actions", wanted)
        return [self.delivered(event["id"]) for event in told["events"]]

    def buy(self, product: str = "pro_monthly", **more: Any) -> list[dict[str, Any]]:
        return self.act("purchase", product_id=product, **more)

    def delivered(self, event_id: str) -> dict[str, Any]:
        receiver = self.world.receiver
        return wait_for(
            lambda: next((event for event in receiver.events() if event["id"] == event_id), None),
            f"the delivery of {event_id}",
        )

    def next_event(self, type: str, after: int = 0) -> dict[str, Any]:
        """The customer's first event of a type with a sequence above `after`."""

        def found() -> dict[str, Any] | None:
            events = self.world.receiver.events(self.id)
            return next((event for event in events if event["type"] == type and event["sequence"] > after), None)

        return wait_for(found, f"{type} of {self.id}")

    def v1(self) -> dict[str, Any]:
        found: dict[str, Any] = self.world.service.call("GET", f"/v1/subscribers/{self.id}")
        return found

    def v2(self) -> dict[str, Any]:
        found: dict[str, Any] = self.world.service.call("GET", f"customers/{self.id}")
        return found

    def has_its_dates(self, event: dict[str, Any]) -> None:
        """V1's subscription has the dates that follow from this event, and no others."""
        subscription = self.v1()["subscriber"]["subscriptions"][event["product_id"]]
        dated = {name for name in _ALL_DATES if subscription[name] is not None}
        assert dated == _DATES.get(event["type"], dated), (event["type"], subscription)
        assert all(milliseconds(subscription[name]) for name in dated)

    def agrees_with(self, event: dict[str, Any]) -> set[str]:
        """V1, V2, this event, which is the customer's last, and the consumer's copy say the same; gives the active
        entitlements."""
        v1, v2 = self.v1(), self.v2()
        now = v1["request_date_ms"]
        by_v1 = {
            name: entitlement
            for name, entitlement in v1["subscriber"]["entitlements"].items()
            if is_active(entitlement, now)
        }
        by_event = event["entitlements"]
        assert by_v1 == by_event, f"V1 {by_v1}, event {event['type']} {by_event}"
        by_v2 = {item["entitlement_id"]: item["expires_at"] for item in v2["active_entitlements"]["items"]}
        assert set(by_v2) == set(by_v1), f"V2 {by_v2}, V1 {by_v1}"
        for name, entitlement in by_v1.items():
            expires = entitlement["expires_date"]
            assert expires is None or abs(milliseconds(expires) - by_v2[name]) < 1000, (name, expires, by_v2[name])
        consumer = self.world.consumer
        consumer.wait_until_processed(event["id"])
        # The database first: whoever asks the consumer may make it read V2.
        record, rows = consumer.record(event["app_user_id"]), consumer.entitlements(event["app_user_id"])
        assert record is not None
        status = STATUSES.get(event["type"], "active") if by_event else "expired"
        assert (record["subscription_status"], bool(record["is_active"])) == (status, bool(by_event)), record
        copied = {name: row for name, row in rows.items() if row["is_active"]}
        assert set(copied) == set(by_event), f"the consumer's rows {rows}, event {by_event}"
        for name, entitlement in by_event.items():
            row = copied[name]
            assert row["product_id"] == entitlement["product_identifier"], row
            for column, name in (
                ("expires_at", "expires_date"),
                ("grace_period_expires_at", "grace_period_expires_date"),
            ):
                date, copy = entitlement[name], row[column]
                # What was read from V2 has milliseconds.
                same = copy == date if None in (copy, date) else abs(milliseconds(date) - copy) < 1000
                assert same, f"the consumer's row {row}, event {entitlement}"
        mine = consumer.ask("GET", "/api/my-entitlements", self.id).json
        assert set(mine["entitlements"]) == set(by_event), f"the consumer {mine}, event {by_event}"
        return set(by_v1)
