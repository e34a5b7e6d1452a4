"""Refunds and disputes at Stripe. Each function gives the new books and the events that Stripe would tell."""

from __future__ import annotations

from dataclasses import replace

from latchkey.domain.refusal import NotFound, Refusal
from latchkey.emulators.stripe.state import Charge, Dispute, Life, Refund, Seconds, Step
from latchkey.emulators.stripe.working import Work


def charges_of(life: Life, purchase: str) -> list[Charge]:
    """The payments of a purchase (a subscription, a checkout session or a payment intent) that came through, oldest
    first."""
    return [one for one in life.charges.values() if one.succeeded and subject_of(life, one) == purchase]


def subject_of(life: Life, charge: Charge) -> str:
    """The purchase that a payment was for."""
    intent = life.intents[charge.intent]
    if intent.invoice is not None:
        return life.invoices[intent.invoice].subscription
    return intent.session or intent.id


def refund(
    life: Life,
    at: Seconds,
    charge_id: str,
    *,
    amount: int | None = None,
    reason: str | None = None,
    metadata: dict[str, str] | None = None,
) -> Step:
    """All that is left of a payment, or a part of it."""
    w = Work(life, at)
    charge = w.charge(charge_id)
    left = charge.amount - charge.refunded
    given = left if amount is None else amount
    if not charge.succeeded:
        raise Refusal(f"Charge {charge.id} has failed and can't be refunded.", param="charge")
    if left == 0:
        raise Refusal(f"Charge {charge.id} has already been refunded.", param="charge")
    if charge.disputed:
        raise Refusal(f"Charge {charge.id} has been charged back; cannot issue a refund.", param="charge")
    if not 0 < given <= left:
        raise Refusal(f"Refund amount ({given}) is greater than unrefunded amount on charge ({left})", param="amount")
    made = Refund(
        id=w.id("re"),
        charge=charge.id,
        intent=charge.intent,
        amount=given,
        currency=charge.currency,
        created=at,
        reason=reason,
        metadata=metadata or {},
    )
    w.put(made)
    before = {"amount_refunded": charge.refunded, "refunded": False}
    charge = w.put(charge, refunded=charge.refunded + given)
    subject = subject_of(w.life, charge)
    w.tell("refund.created", made, subject=subject)
    w.tell("charge.refunded", charge, subject=subject, **before)
    return w.done()


def fail_refund(life: Life, at: Seconds, purchase: str) -> Step:
    """The bank gives the latest refund back."""
    w = Work(life, at)
    of = {one.id for one in charges_of(life, purchase)}
    made = [one for one in life.refunds.values() if one.charge in of and one.status == "succeeded"]
    if not made:
        raise Refusal("Nothing was refunded.", param="act")
    failed = w.put(made[-1], status="failed", failed_at=at)
    charge = w.charge(failed.charge)
    w.put(charge, refunded=charge.refunded - failed.amount)
    for type in ("refund.updated", "charge.refund.updated", "refund.failed"):
        w.tell(type, failed, subject=purchase, status="succeeded")
    return w.done()


def dispute(life: Life, at: Seconds, charge_id: str, *, reason: str = "fraudulent") -> Step:
    """The customer's bank takes the money back; the dispute is open."""
    w = Work(life, at)
    charge = w.charge(charge_id)
    if charge.disputed:
        raise Refusal(f"Charge {charge.id} is disputed already.", param="charge")
    if charge.refunded >= charge.amount:
        raise Refusal(f"Charge {charge.id} has already been refunded.", param="charge")
    made = Dispute(
        id=w.id("du"),
        charge=charge.id,
        intent=charge.intent,
        amount=charge.amount - charge.refunded,
        currency=charge.currency,
        created=at,
        reason=reason,
    )
    w.put(made)
    w.put(charge, disputed=True)
    subject = subject_of(w.life, charge)
    w.tell("charge.dispute.created", made, subject=subject)
    w.tell("charge.dispute.funds_withdrawn", made, subject=subject)
    return w.done()


def close_dispute(life: Life, at: Seconds, purchase: str, *, won: bool) -> Step:
    """Won, the money comes back to the seller."""
    w = Work(life, at)
    of = {one.id for one in charges_of(life, purchase)}
    found = [one for one in life.disputes.values() if one.charge in of and one.status == "needs_response"]
    if not found:
        raise Refusal("No dispute is open.", param="act")
    closed = replace(found[-1], status="won", reinstated_at=at) if won else replace(found[-1], status="lost")
    w.put(closed)
    w.tell("charge.dispute.closed", closed, subject=purchase, status="needs_response")
    if won:
        w.tell("charge.dispute.funds_reinstated", closed, subject=purchase)
    return w.done()


def charge_named(life: Life, purchase: str, name: str | None) -> str:
    """The latest payment of the purchase, or the one that is named by its charge, payment intent or invoice."""
    candidates = charges_of(life, purchase)
    if name is not None:
        candidates = [one for one in candidates if name in (one.id, one.intent, life.intents[one.intent].invoice)]
        if not candidates:
            raise NotFound(f"The purchase has no payment {name!r}.", param="payment")
    if not candidates:
        raise Refusal("Nothing was paid.", param="act")
    return candidates[-1].id
