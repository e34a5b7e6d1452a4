"""Virtual currencies as V2 shows them."""

from collections.abc import Sequence

from latchkey.engine.storage.catalog.currency_rows import Currency
from latchkey.subjects.currencies import wire
from latchkey.subjects.currencies.usecases import ProductGrant
from latchkey.wire.shape import shaped


def currency(project_id: str, one: Currency, grants: Sequence[ProductGrant]) -> wire.VirtualCurrency:
    description = one.description or None
    return shaped(wire.VirtualCurrency, one, project_id=project_id, description=description, product_grants=grants)
