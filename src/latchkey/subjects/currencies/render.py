"""Virtual currencies as V2 shows them."""

from collections.abc import Sequence

from latchkey.engine.storage.catalog.currency_rows import Currency
from latchkey.subjects.catalog import wire as catalog_wire
from latchkey.subjects.currencies import wire
from latchkey.subjects.currencies.usecases import ProductGrant


def currency(project_id: str, one: Currency, grants: Sequence[ProductGrant]) -> wire.VirtualCurrency:
    return wire.VirtualCurrency(
        code=one.code,
        project_id=project_id,
        name=one.name,
        description=one.description or None,
        product_grants=[
            catalog_wire.ProductGrant(product_ids=list(each.product_ids), amount=each.amount) for each in grants
        ],
        created_at=one.created_at,
    )
