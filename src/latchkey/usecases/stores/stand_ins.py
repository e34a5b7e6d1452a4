"""Temporary access while a store cannot be asked about a receipt, and its end when the store answers."""

from __future__ import annotations

from collections.abc import Mapping

from latchkey.domain.customers.customer import Attribute, Customer, with_attributes
from latchkey.domain.customers.intake import take_in
from latchkey.domain.customers.stand_in import stand_in, withdrawn
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.refusal import NotFound
from latchkey.stores.adapter import ConnectedApp
from latchkey.usecases.customers.receipts import CannotCheck
from latchkey.usecases.engine.changes import Change, Changes, Committed, Situation
from latchkey.usecases.stores.shown import ShownReceipt


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
