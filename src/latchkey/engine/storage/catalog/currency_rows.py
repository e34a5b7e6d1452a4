"""Virtual currencies of a project. Balances are part of the customer; see `engine/storage/records.py`."""

from msgspec import Struct

from latchkey.database.rows import Listing, executes, fetches_all, fetches_column, fetches_one, fetches_value, saves
from latchkey.database.sql import query
from latchkey.domain.instants import Ms


class Currency(Struct, frozen=True):
    code: str
    name: str
    description: str
    created_at: Ms


class CreditedProduct(Struct, frozen=True):
    code: str
    product_id: str
    amount: int


CURRENCIES = Listing("virtual currency", query("list_currencies"), Currency, param="code")


# False: the code is taken.
create = saves(query("create_currency"), "code", "name", "description", "created_at")
# None as a new name or description keeps the old one. Returns None if there is no such currency.
update = fetches_one(Currency, query("update_currency"))
# The products on sale that credit one of these currencies, by id.
credited_products = fetches_all(CreditedProduct, query("credited_products"))
# What a purchase of a product credits: a code and an amount; None is nothing.
set_credit = executes(query("set_product_credit"))
# Whether any customer was ever credited or debited.
was_moved = fetches_value(bool, query("currency_was_moved"))
# Those of these currencies that exist. None of them is deleted before the transaction ends.
keep = fetches_column(str, query("keep_currencies"))
# Also removes the currency from deleted products.
delete = executes(query("delete_currency"))
