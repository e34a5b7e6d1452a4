"""A receipt as the journal keeps it: what a phone showed, and for whom."""

from __future__ import annotations

from hashlib import sha256

from msgspec import Struct, json

from latchkey.domain.instants import Ms
from latchkey.storage.stores.journal import NewEntry
from latchkey.stores.adapter import AppReceipt


class ShownReceipt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    app_user_id: str
    token: str | None = None
    product_ids: tuple[str, ...] = ()
    transaction_id: str | None = None
    app_transaction: str | None = None
    # The offering that the app showed.
    offering: str | None = None

    @property
    def receipt(self) -> AppReceipt:
        return AppReceipt(
            token=self.token,
            product_ids=self.product_ids,
            transaction_id=self.transaction_id,
            app_transaction=self.app_transaction,
        )

    @property
    def token_hash(self) -> str:
        return sha256((self.token or "").encode()).hexdigest()

    @property
    def subject(self) -> str:
        return f"receipt {self.token_hash[:32]}"

    @property
    def stand_in_id(self) -> str:
        """The id of the temporary access that this receipt may bring."""
        return f"temporary {self.token_hash}"

    def entry(self, project_id: str, app_id: str, store: str, now: Ms, next_at: Ms) -> NewEntry:
        """Whoever shows the same receipt again finds the same entry."""
        payload = json.encode(self)
        return NewEntry(
            project_id=project_id,
            app_id=app_id,
            store=store,
            source="receipt",
            external_id="receipt " + sha256(payload).hexdigest(),
            kind="RECEIPT",
            environment=None,
            # Never the token itself: who may see the journal's list need not be able to show it.
            subject=self.subject,
            occurred_at=now,
            received_at=now,
            checked={},
            payload=payload.decode(),
            next_at=next_at,
            app_user_id=self.app_user_id,
        )
