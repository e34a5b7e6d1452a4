"""Which items of a subscription followed one another, and which were taken out. Pure.

Stripe lists the items that a subscription has now; those that it had are named by the lines of its invoices. An item
that is gone was replaced, if another one began when it ended, and was removed otherwise.
"""

from collections.abc import Iterable

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.stores.stripe.resources import (
    InvoiceItem,
    InvoiceLine,
    StripeInvoice,
    StripeSubscription,
    SubscriptionItem,
)

# What Stripe does in one request has the same second, or nearly.
_TOGETHER = 60


class Succession(Struct, eq=False):
    """An item, and the items that it has replaced."""

    # Oldest first. The first one gives the succession its id.
    ids: list[str]
    # None: it was removed.
    item: SubscriptionItem | None
    # In seconds, as Stripe counts.
    began: int
    products: set[str]
    # Of what was removed, if Stripe dates it.
    removed_at: Ms | None = None


class ItemLines(Struct, frozen=True):
    """The lines of an invoice that are about one succession."""

    invoice: StripeInvoice
    lines: tuple[InvoiceLine, ...]

    @property
    def main(self) -> InvoiceLine | None:
        """The line of the period: what is paid for next, or else what a change has begun."""
        regular = [line for line in self.lines if not line.is_proration]
        begun = [line for line in self.lines if line.is_proration and line.amount > 0]
        return max(regular or begun, key=lambda one: (one.period.end, one.period.start), default=None)

    @property
    def charged(self) -> int:
        """Without what was paid with credit: that money was counted when it was paid."""
        whole, total = max(0, sum(line.charged for line in self.lines)), self.invoice.total
        if not self.invoice.credit:
            return whole
        credit = self.invoice.credit if whole >= total else self.invoice.credit * whole // total
        return max(0, whole - credit)


class Items:
    def __init__(
        self, subscription: StripeSubscription, invoices: Iterable[StripeInvoice], pending: tuple[InvoiceItem, ...]
    ) -> None:
        self._invoices = [invoice for invoice in invoices if invoice.status != "void"]
        self._pending = pending
        self._present = {item.id: item for item in subscription.items.data}
        named = [line.item_id for invoice in self._invoices for line in invoice.lines.data if line.item_id is not None]
        # In the order in which they were first invoiced, so that the first one stays the first.
        self._found = [self._alone(id) for id in dict.fromkeys((*named, *self._present))]
        for succession in self.successions:
            self._complete(succession)

    @property
    def successions(self) -> tuple[Succession, ...]:
        return tuple(self._found)

    def parts(self, of: Succession, invoice: StripeInvoice) -> ItemLines:
        return ItemLines(invoice, tuple(line for line in invoice.lines.data if self._owner(line, invoice) is of))

    def owner_of(self, invoice: StripeInvoice) -> Succession | None:
        """Whose invoice it is, where it is of several."""
        owners = [self._owner(line, invoice) for line in invoice.lines.data]
        return next((succession for succession in self._found if succession in owners), None)

    def _alone(self, id: str) -> Succession:
        item, lines = self._present.get(id), [one for _, one in self._lines(id)]
        products = {line.product for line in lines if line.product is not None}
        if item is not None:
            products.add(item.product)
        return Succession([id], item, item.created if item is not None else self._first(lines, products), products)

    def _first(self, lines: list[InvoiceLine], products: set[str]) -> int:
        """When an item began that is gone: with its first line, or with what a change to it has cost."""
        prorations = (line for invoice in self._invoices for line in invoice.prorations)
        debits = (line for line in prorations if line.amount > 0 and line.product in products)
        return min(line.period.start for line in (*lines, *debits))

    def _lines(self, id: str) -> list[tuple[StripeInvoice, InvoiceLine]]:
        return [(of, line) for of in self._invoices for line in of.lines.data if line.item_id == id]

    def _complete(self, gone: Succession) -> None:
        """Add what replaced it, and what replaced that."""
        while gone.item is None and gone in self._found:
            removed_at = self._credited_at(gone)
            follower = next((later for later in self._found if self._follows(later, gone, removed_at)), None)
            if follower is None:
                gone.removed_at = removed_at * 1000 if removed_at is not None else None
                return
            self._found.remove(follower)
            gone.ids += follower.ids
            gone.item, gone.products = follower.item, gone.products | follower.products

    def _follows(self, one: Succession, gone: Succession, removed_at: int | None) -> bool:
        if one.began <= gone.began:
            return False
        if removed_at is not None:
            return abs(one.began - removed_at) <= _TOGETHER
        # Nothing dates the end of the one. The other began in the time that the one had paid for.
        before = self._lines(gone.ids[-1])
        together = {of.id for of, _ in before} & {of.id for of, _ in self._lines(one.ids[0])}
        ends = max(line.period.end for _, line in before) + _TOGETHER
        return not together and max(of.created for of, _ in before) <= one.began <= ends

    def _credited_at(self, gone: Succession) -> int | None:
        """When the rest of its price became a credit, without another price in its place."""
        waiting = (item for item in self._pending if item.proration and item.item_id == gone.ids[-1])
        moves = [(item.period.start, item.amount) for item in waiting]
        for invoice in self._invoices:
            found = (line for line in invoice.prorations if self._owner(line, invoice, gone) is gone)
            moves += [(line.period.start, line.amount) for line in found]
        debits = {start for start, amount in moves if amount > 0}
        return max((start for start, amount in moves if amount < 0 and start not in debits), default=None)

    def _owner(self, line: InvoiceLine, invoice: StripeInvoice, gone: Succession | None = None) -> Succession | None:
        """A credit for what was removed lowers what the others cost, unless it is asked for (`gone`)."""
        if line.item_id is None and not line.is_proration:
            return None
        found = self._named(line, invoice)
        if found is not None and (found.item is not None or found is gone or not line.is_proration):
            return found
        charged = any(other.amount > 0 and self._named(other, invoice) is found for other in invoice.lines.data)
        if found is not None and charged:
            return found
        return next((succession for succession in self._found if succession.item is not None), None)

    def _named(self, line: InvoiceLine, invoice: StripeInvoice) -> Succession | None:
        """A proration names no item in an invoice, but the price, and comes with the one that it was changed from."""
        if line.item_id is not None:
            return next((succession for succession in self._found if line.item_id in succession.ids), None)
        if len(self._found) == 1:
            return self._found[0]
        beside = [other.product for other in invoice.prorations if other.period.start == line.period.start]
        for product in (line.product, *beside):
            sold = [succession for succession in self._found if product in succession.products]
            begun = [succession for succession in sold if succession.began <= line.period.start + _TOGETHER]
            if sold:
                return max(begun or sold, key=lambda one: one.began)
        return None
