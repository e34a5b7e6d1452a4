"""A receipt as the journal keeps it: what a phone showed, and for whom."""

from collections.abc import Mapping
from hashlib import sha256

from msgspec import json

from latchkey.domain.customers.customer import Attribute, Customer, with_attributes
from latchkey.domain.customers.intake import stand_in, take_in, withdrawn
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.refusal import NotFound
from latchkey.engine.changes import Change, Changes, Committed, Situation
from latchkey.stores.adapter import AppReceipt, ConnectedApp
from latchkey.subjects.purchase_intake.rules import NewEntry
from latchkey.subjects.purchase_intake.usecases.sandbox_receipts import CannotCheck


class ShownReceipt(AppReceipt, frozen=True, kw_only=True, omit_defaults=True):
    app_user_id: str
    # The offering that the app showed.
    offering: str | None = None

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

    def entry(self, project_id: str, app_id: str, store: str, now: Ms) -> NewEntry:
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
            next_at=now,
            app_user_id=self.app_user_id,
        )


async def give(
    changes: Changes, app: ConnectedApp, shown: ShownReceipt, attributes: Mapping[str, Attribute]
) -> Committed:
    """Raises CannotCheck where no temporary access may be given."""

    def granted(situation: Situation) -> Customer:
        customer = with_attributes(situation.customer, attributes)
        access = stand_in(
            customer,
            situation.catalog,
            shown.product_ids,
            situation.now,
            store=app.store,
            id=shown.stand_in_id,
            app_id=app.app_id,
            environment=Environment.PRODUCTION,
        )
        if access is None:
            raise CannotCheck("The store cannot be asked now. Keep the purchase, and send it again later.")
        return take_in(customer, access, situation.now)

    return await changes.make(
        Change(project_id=app.project_id, app_user_id=shown.app_user_id, apply=granted, create=True)
    )


async def withdraw(changes: Changes, app: ConnectedApp, shown: ShownReceipt) -> None:
    """The store has answered about the receipt: what was given meanwhile ends now."""

    def ended(situation: Situation) -> Customer:
        return withdrawn(situation.customer, app.store, shown.stand_in_id, situation.now)

    try:
        await changes.make(Change(project_id=app.project_id, app_user_id=shown.app_user_id, apply=ended))
    except NotFound:
        return
