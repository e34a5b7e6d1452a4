"""Everything the customer page shows: the customer, their entitlements with reasons, and the possible actions."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.access.entitlements import held
from latchkey.domain.access.explanation import Explanation, explain
from latchkey.domain.customers.attributes import visible
from latchkey.domain.customers.customer import Attribute
from latchkey.domain.customers.life import Past
from latchkey.domain.customers.spend import Spend, spend_of
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.refusal import NotFound
from latchkey.storage.customers.records import PurchaseKey
from latchkey.usecases.customers.currency import Balance, balances
from latchkey.usecases.customers.notes import Note, notes_of
from latchkey.usecases.customers.past import past_of
from latchkey.usecases.customers.remedies import Remedies, remedies
from latchkey.usecases.rendering.view import View, look_at
from latchkey.usecases.services import Services


@dataclass(frozen=True, slots=True)
class Profile:
    view: View
    # One for every entitlement of the project and every one the customer ever had: active first, never granted last.
    explanations: list[Explanation]
    balances: list[Balance]
    attributes: dict[str, Attribute]
    remedies: dict[PurchaseKey, Remedies]
    # What was paid in production, and in the sandbox; without those where nothing was.
    spent: list[Spend]
    past: Past
    notes: list[Note]


async def load_profile(services: Services, project_id: str, customer_id: str) -> Profile:
    view = await view_of(services, project_id, customer_id)
    customer = view.customer
    known = view.catalog.entitlements | held(customer, view.catalog).keys()
    explained = [explain(customer, view.catalog, id, view.now) for id in sorted(known)]
    return Profile(
        view,
        sorted(explained, key=lambda one: (not one.has_access, one.reason == "never_granted", one.entitlement_id)),
        await balances(services.changes, project_id, customer.app_user_id),
        visible(customer),
        remedies(customer, view.now),
        [spent for one in Environment if (spent := spend_of(customer, one)) is not None],
        await past_of(services.database, project_id, view.key),
        await notes_of(services.database, project_id, view.key),
    )


async def view_of(services: Services, project_id: str, customer_id: str) -> View:
    """The customer with this id, which may be any of their ids."""
    row = await services.reader.read(project_id, customer_id)
    if row is None:
        raise NotFound(f"There is no customer {customer_id!r}.", param="customer_id")
    return look_at(row, services.now())
