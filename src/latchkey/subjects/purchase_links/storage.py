"""Purchase links."""

from latchkey.database import rows
from latchkey.database.sql import query
from latchkey.subjects.purchase_links.rules import PurchaseLink

LINKS = rows.Listing("purchase link", query("list_purchase_links"), PurchaseLink, by_age=True)
create = rows.saves(query("create_purchase_link"), "id", "app_id", "product_id", "offering_id", "created_at")
# By its id alone, as a buyer has it.
find = rows.fetches_one(PurchaseLink, query("open_purchase_link"))
archive = rows.fetches_one(PurchaseLink, query("archive_purchase_link"))
