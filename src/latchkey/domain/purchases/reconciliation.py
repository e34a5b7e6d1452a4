"""What a store's snapshot means beside what is known already.

A store reports one transaction at a time, and not why it followed the one before. `settle` adds that: which renewal was
the first paid one, which purchase replaced another, which refund was taken back. The result is a snapshot again, for
`take_in` to merge. It does not depend on the order in which snapshots arrive, as long as each has its time.
"""

from itertools import pairwise

from msgspec.structs import replace

from latchkey.domain.catalog import Catalog, ProductKind, without_plan
from latchkey.domain.instants import HOUR, MINUTE, SECOND, Ms, add
from latchkey.domain.purchases.purchase import (
    MoneyBack,
    Purchase,
    Reason,
    merge_facts,
    merge_parts,
    refunded_at,
    same_offering,
)
from latchkey.domain.purchases.subscription import (
    PAUSE_NOT_TOLD,
    Cause,
    Moment,
    Pause,
    Period,
    PeriodType,
    Status,
    Subscription,
)

# A period that begins within this time after another is the next one. Stores renew to the second, in their sandboxes
# every few minutes.
_NEXT: Ms = MINUTE

# A subscription of Stripe that an import knew only by its item. Its periods have ids that the import made up.
IMPORTED = "si_"


def settle(before: Subscription | None, seen: Subscription, now: Ms, *, unordered: bool = False) -> Subscription:
    """The snapshot with everything that follows from the periods known before it. `unordered`: the store told how
    things stood when it was asked, at `now`, and not since when."""
    if before is not None and before.id.startswith(IMPORTED):
        seen = _under_known_ids(before, seen)
    if unordered:
        seen = _stamped(before, seen, now)
    known = {period.id: period for period in before.periods} if before is not None else {}
    merged = known | {period.id: _merged(known.get(period.id), period, dated=not unordered) for period in seen.periods}
    line = _followed(sorted(merged.values(), key=lambda period: period.order), dated=not unordered)
    line = _as_planned(before, line)
    line[1:] = [_without_gap(last, period, before, seen) for last, period in pairwise(line)]
    changed = [_told_again(known.get(period.id), period) for period in line if period != known.get(period.id)]
    status = _settled_status(before, seen)
    newest = status if before is None or status.as_of > before.status.as_of else before.status
    if _has_older_grace(newest, line[-1]):
        as_of = Moment(newest.as_of.at, newest.as_of.revision + 1)
        status = replace(newest, billing_issue_at=None, grace_ends_at=None, as_of=as_of)
    return replace(seen, periods=tuple(changed), status=status)


def _under_known_ids(before: Subscription, seen: Subscription) -> Subscription:
    """A period that begins with an imported one is that one, whatever its name. Its invoice is of the past."""
    known = {period.id for period in before.periods}
    made_up = [period for period in before.periods if period.id.startswith(IMPORTED)]
    imported_to = max((period.purchased_at + HOUR for period in made_up), default=0)

    def named(period: Period) -> Period:
        same = (one.id for one in made_up if abs(one.purchased_at - period.purchased_at) <= HOUR)
        return period if period.id in known else replace(period, id=next(same, period.id))

    invoices = tuple(invoice for invoice in seen.invoices if invoice.issued_at > imported_to)
    return replace(seen, periods=tuple(named(period) for period in seen.periods), invoices=invoices)


def settle_purchase(before: Purchase | None, seen: Purchase, *, read_at: Ms | None = None) -> Purchase:
    """The same for a one-time purchase: a refund that a later report no longer has was reversed. `read_at`: the store
    told how things stood when it was asked, at this moment."""
    if read_at is not None:
        return _read_at(before, seen, read_at)
    if before is None or seen.told_at is None:
        return seen
    # It keeps its own moment: since then a part of the price is known to be given back, even if it arrives late.
    return replace(seen, money_back=_money_back(before.money_back, before.told_at or 0, seen.money_back, seen.told_at))


def as_long_as_sold(bought: Purchase, catalog: Catalog) -> Purchase:
    """A store knows no end of a one-time purchase. If the catalog has a duration for the product, that counts."""
    product = catalog.find(bought.product_id)
    if bought.ends_at is not None or product is None or product.kind is not ProductKind.ONE_TIME:
        return bought
    return bought if product.duration is None else replace(bought, ends_at=add(bought.purchased_at, product.duration))


def _read_at(before: Purchase | None, seen: Purchase, at: Ms) -> Purchase:
    """With the moment of the reading, if it tells anything new."""
    if before is None:
        return replace(seen, told_at=at)
    if before.refunded_at is not None:
        # A report without the refund does not reverse it; a report of the reversal does.
        seen = replace(seen, money_back=_still_back(before.money_back, seen.money_back))
    if (seen.money_back, seen.given_back, seen.revoked_at, seen.resolved_at) == (
        before.money_back,
        before.given_back,
        before.revoked_at,
        before.resolved_at,
    ):
        return replace(seen, told_at=before.told_at)
    # Of two readings in one millisecond the one that is applied last counts.
    return replace(seen, told_at=at if at != before.told_at else at + 1)


def _stamped(before: Subscription | None, seen: Subscription, now: Ms) -> Subscription:
    moment = _moment(before, now)
    if before is None:
        periods = tuple(replace(period, as_of=moment) for period in seen.periods)
        return replace(seen, periods=periods, status=replace(seen.status, as_of=moment))
    known = {period.id: period for period in before.periods}
    # A store whose reports have no time reports a refund only when it is asked for the order. So a report without the
    # refund does not reverse it; a report of the reversal does.
    seen = replace(seen, periods=tuple(_refund_stands(known.get(period.id), period) for period in seen.periods))
    seen = replace(seen, periods=_changed_when_known(known, seen.periods))
    if seen.current.id in known and seen.current.id != before.current.id:
        # Another purchase has taken its place meanwhile. How the old one stands says nothing about the new one.
        seen = replace(seen, status=before.status)
    for still in (_still_in_grace, _still_deferred, _still_over, _still_given_up):
        seen = still(before, seen)
    status = replace(seen.status, as_of=before.status.as_of)
    if _settled_status(before, replace(seen, status=status)) != before.status:
        status = replace(status, as_of=moment)
    return replace(
        seen,
        status=status,
        periods=tuple(replace(period, as_of=_as_of(known, period, moment)) for period in seen.periods),
    )


def _still_in_grace(before: Subscription, seen: Subscription) -> Subscription:
    """Whoever cancels in a grace period keeps access until its end, and a revocation within it cuts it short. A store
    that then names only the end of access has not extended what was paid."""
    was, paid_until, current = before.status, before.current.ends_at, seen.current
    if current.id != before.current.id or seen.status.billing_issue_at is not None or was.billing_issue_at is None:
        return seen
    if was.grace_ends_at is None or not paid_until < current.ends_at <= was.grace_ends_at:
        return seen
    status = replace(seen.status, billing_issue_at=was.billing_issue_at, grace_ends_at=current.ends_at)
    money_back = current.money_back
    revoked = status.ended is not None and current.ends_at < was.grace_ends_at
    if revoked:
        # A refund that the store dates a moment after the end of access has ended it.
        money_back = tuple(replace(back, at=min(back.at, current.ends_at - 1)) for back in money_back)
    if (revoked or was.ended is not None) and status.renewal_off_at is None:
        # Nobody has cancelled, as long as the store does not say when.
        off_at, reason = was.renewal_off_at, was.renewal_off_reason
        status = replace(status, auto_renew=was.auto_renew, renewal_off_at=off_at, renewal_off_reason=reason)
    current = replace(current, ends_at=paid_until, money_back=money_back)
    return replace(seen, status=status, periods=(*seen.periods[:-1], current))


def _still_deferred(before: Subscription, seen: Subscription) -> Subscription:
    """A store that extended the paid time may tell, while a payment is missing, only what the last order had paid for
    and when access ends. The extension that is known still counts."""
    status, current, known = seen.status, seen.current, before.current
    if current.id != known.id or status.billing_issue_at != current.ends_at or known.ends_at <= current.ends_at:
        return seen
    access_ends_at = status.grace_ends_at if status.grace_ends_at is not None else current.ends_at
    # A known end that is the end of a grace period is none of the paid time.
    if known.ends_at > access_ends_at or before.status.billing_issue_at not in (None, known.ends_at):
        return seen
    grace_ends_at = access_ends_at if access_ends_at > known.ends_at else None
    status = replace(status, billing_issue_at=known.ends_at, grace_ends_at=grace_ends_at)
    return replace(seen, status=status, periods=(*seen.periods[:-1], replace(current, ends_at=known.ends_at)))


def _still_over(before: Subscription, seen: Subscription) -> Subscription:
    """A store may not date the end. It came when it was first seen, whatever a later reading guesses."""
    known, current = before.current, seen.current
    if before.status.ended is None or seen.status.ended is None or known.id != current.id:
        return seen
    return replace(seen, periods=(*seen.periods[:-1], replace(current, ends_at=min(known.ends_at, current.ends_at))))


def _still_given_up(before: Subscription, seen: Subscription) -> Subscription:
    """A missing payment has ended it. Whoever deletes it later, for whatever reason, does not end it again."""
    was, status = before.status, seen.status
    if before.expired is None or was.ended is not Reason.BILLING_ERROR or status.ended is None:
        return seen
    if seen.current.id != before.current.id or status.billing_issue_at != was.billing_issue_at:
        return seen
    return replace(seen, status=replace(status, ended=was.ended, grace_ends_at=was.grace_ends_at))


def _refund_stands(known: Period | None, seen: Period) -> Period:
    if known is None or known.refunded_at is None:
        return seen
    return replace(seen, money_back=_still_back(known.money_back, seen.money_back))


def _still_back(known: tuple[MoneyBack, ...], seen: tuple[MoneyBack, ...]) -> tuple[MoneyBack, ...]:
    return merge_facts(known, seen) if any(back.reversal for back in seen) else known


def _changed_when_known(known: dict[str, Period], seen: tuple[Period, ...]) -> tuple[Period, ...]:
    """A store may not date a change. The period before it ended when the change was first seen, whatever a later
    reading guesses."""
    result = list(seen)
    for number, (one, following) in enumerate(pairwise(seen)):
        change = known.get(following.id)
        if change is None or following.cause is not Cause.CHANGE or one.ends_at != following.purchased_at:
            continue
        result[number] = replace(one, ends_at=change.purchased_at)
    return tuple(result)


def _moment(before: Subscription | None, now: Ms) -> Moment:
    """When it was read. Of two readings in one millisecond the one that is applied last counts; one that began before
    the last change was known is older than it."""
    if before is None:
        return Moment(now)
    last = max(before.status.as_of, *(period.as_of for period in before.periods))
    return Moment(now) if now != last.at else Moment(last.at, last.revision + 1)


def _as_of(known: dict[str, Period], period: Period, moment: Moment) -> Moment:
    was = known.get(period.id)
    if was is None:
        return moment
    same_end = was.ends_at == period.ends_at or _same_second(was.ends_at, period.ends_at)
    same_refund = (was.refunded_at is None) == (period.refunded_at is None)
    unchanged = same_end and same_refund and was.given_back == period.given_back
    return was.as_of if unchanged else moment


def _same_second(known: Ms, seen: Ms) -> bool:
    """An imported file may have whole seconds only. The store's own milliseconds do not extend the period."""
    return known % SECOND == 0 and known <= seen < known + SECOND


def _merged(known: Period | None, seen: Period, *, dated: bool) -> Period:
    """`dated`: by the store, so that an older report without a refund that is known cannot take it back. Moments of our
    own clock do not say that."""
    if known is None:
        parts = seen.parts_told
        return seen if parts == seen.parts_back else replace(seen, parts_back=parts)
    newer = seen.as_of > known.as_of
    facts = merge_facts(known.money_back, seen.money_back)
    if dated:
        facts = _money_back(known.money_back, known.as_of.at, seen.money_back, seen.as_of.at, newer=newer)
    # What was once concluded about a period (why it began, its number) stays; the store can only move its end.
    return replace(
        known,
        ends_at=seen.ends_at if newer and not _same_second(known.ends_at, seen.ends_at) else known.ends_at,
        as_of=seen.as_of if newer else known.as_of,
        money_back=facts,
        given_back=seen.given_back if newer else known.given_back,
        parts_back=merge_parts(*known.parts_told, *seen.parts_told),
        price=known.price if known.price.known else seen.price,
        country=known.country if known.country is not None else seen.country,
        offering=same_offering(known.offering, seen.offering),
        offer_code=known.offer_code if known.offer_code is not None else seen.offer_code,
    )


def _money_back(
    known: tuple[MoneyBack, ...], known_at: Ms, seen: tuple[MoneyBack, ...], seen_at: Ms, *, newer: bool | None = None
) -> tuple[MoneyBack, ...]:
    """A store reports a refund only until it is reversed. The newer report decides whether it was."""
    newer = seen_at > known_at if newer is None else newer
    facts = merge_facts(known, seen)
    stands = bool(seen) if newer else refunded_at(known) is not None
    if refunded_at(facts) is None or stands:
        return facts
    taken_back_at = max(seen_at if newer else known_at, facts[-1].at)
    return (*facts, MoneyBack(taken_back_at, number=facts[-1].number + 1, reversal=True))


def _followed(line: list[Period], *, dated: bool) -> list[Period]:
    """Each period in the light of the one before it."""
    result: list[Period] = []
    for period in line:
        if result:
            last = result[-1]
            period = _after(last, period, dated=dated)
            if period.cause not in (Cause.RENEWAL, Cause.CONVERSION) and last.ends_at > period.purchased_at:
                result[-1] = replace(last, ends_at=period.purchased_at)
        result.append(period)
    return result


def _as_planned(before: Subscription | None, line: list[Period]) -> list[Period]:
    """A change that was announced for the period's end is a renewal when it comes: it was told already."""
    if before is None or before.status.next_product_id is None:
        return line
    # It was announced for the end of the period that ran at that moment. If that one was not known, neither is its end.
    place = max((place for place, one in enumerate(line) if one.purchased_at <= before.status.as_of.at), default=0)
    known = {period.id: period for period in before.periods}
    if line[place].id not in known or place + 1 == len(line):
        return line
    following, ends_at = line[place + 1], known[line[place].id].ends_at
    at_its_end = following.id not in known and following.purchased_at >= ends_at - HOUR
    # A store may announce the product without its base plan.
    planned = without_plan(before.status.next_product_id) == without_plan(following.product_id)
    # Where the end was moved unseen, only the store knows whether the change waited for it.
    causes = (Cause.PURCHASE,) if line[place].ends_at > ends_at else (Cause.PURCHASE, Cause.CHANGE)
    if not at_its_end or not planned or following.cause not in causes:
        return line
    return [*line[: place + 1], replace(following, cause=Cause.RENEWAL, changed_from=None), *line[place + 2 :]]


def _without_gap(last: Period, period: Period, *reports: Subscription | None) -> Period:
    """A payment recovered within the grace period is for the time since the end of the period before it, also where the
    store dates the new period with the payment."""
    if period.cause not in (Cause.RENEWAL, Cause.CONVERSION) or period.purchased_at <= last.ends_at:
        return period
    in_grace = (one for one in reports if one is not None and one.in_grace and one.current.id == last.id)
    if period.paid_from is not None or all(one.access_ends_at < period.purchased_at for one in in_grace):
        return period
    return replace(period, paid_from=last.ends_at)


def _after(last: Period, period: Period, *, dated: bool) -> Period:
    period = replace(period, number=max(period.number, last.number + 1))
    # An upgrade may give the price of the old period back at the same moment.
    was_refunded = last.refunded_before(period.purchased_at - MINUTE)
    if was_refunded and dated and period.cause is Cause.CHANGE:
        # Concluded before the refund was known. A store without dates says itself what is a change.
        return replace(period, cause=Cause.PURCHASE, changed_from=None)
    replaces = period.product_id != last.product_id and last.ends_at > period.purchased_at and not was_refunded
    if period.cause in (Cause.RENEWAL, Cause.CONVERSION) and not replaces:
        # Concluded anew each time: a period between the two may have become known.
        after_trial = last.period_type is PeriodType.TRIAL
        return replace(period, cause=Cause.CONVERSION if after_trial else Cause.RENEWAL)
    # A renewal too: an upgrade with an offer for subscribers looks like one, but comes before the period's end.
    if replaces and period.cause in (Cause.PURCHASE, Cause.RENEWAL, Cause.CONVERSION):
        return replace(period, cause=Cause.CHANGE, changed_from=last.product_id)
    if period.cause is Cause.CHANGE and period.changed_from is None:
        return replace(period, changed_from=last.product_id)
    return period


def _told_again(known: Period | None, period: Period) -> Period:
    """With a moment that makes `observe` take it over what is known."""
    if known is None or period.as_of > known.as_of:
        return period
    return replace(period, as_of=Moment(known.as_of.at, known.as_of.revision + 1))


def _settled_status(before: Subscription | None, seen: Subscription) -> Status:
    """With the moments that the store does not tell: what stood already has stood since then."""
    was = before.status if before is not None else None
    if before is not None and seen.status.as_of < before.status.as_of:
        return _with_grace_of(seen, before)
    status = replace(_with_grace(before, seen), pause=_settled_pause(before, seen))
    older = before is not None and seen.current.order < before.current.order and status.billing_issue_at is not None
    if before is not None and older and before.current.purchased_at <= status.as_of.at:
        # Told with an older period, such as its refund. What is not paid is the renewal of the running one.
        failed_at = before.status.billing_issue_at
        status = replace(status, billing_issue_at=failed_at if failed_at is not None else before.current.ends_at)
    current = seen.current if before is None else max(seen.current, before.current, key=lambda period: period.order)
    if status.next_product_id == current.product_id:
        status = replace(status, next_product_id=None)  # It goes on as it is: no change is waiting.
    if status.auto_renew or status.renewal_off_at is not None:
        return status
    since = was.renewal_off_at if was is not None and not was.auto_renew else None
    return replace(status, renewal_off_at=since if since is not None else status.as_of.at)


def _with_grace(before: Subscription | None, seen: Subscription) -> Status:
    """A store may tell of a grace period only while it runs. Access lasted until its end all the same."""
    status = seen.status
    # A newer report about an older period, such as its refund, also has the status of the running one.
    if before is None or seen.current.order > before.current.order:
        return status
    if before.status.as_of.at < before.current.purchased_at:
        return status  # The grace period of an older one.
    return _in_known_grace(status, before)


def _with_grace_of(seen: Subscription, before: Subscription) -> Status:
    """The snapshot is older than what is known. If it tells of the grace period, only that is added to what is known,
    so that the order in which both came does not matter."""
    status = _in_known_grace(before.status, seen) if before.current.id == seen.current.id else before.status
    if status == before.status:
        return seen.status
    return replace(status, as_of=Moment(status.as_of.at, status.as_of.revision + 1))


def _has_older_grace(status: Status, current: Period) -> bool:
    """Whether the end of the current period was given the grace period of an earlier one, because the current one was
    not known yet."""
    failed_at, ended_in_grace = status.billing_issue_at, status.ended is not None and status.grace_ends_at is not None
    return failed_at is not None and ended_in_grace and failed_at < current.purchased_at <= status.as_of.at


def _in_known_grace(status: Status, earlier: Subscription) -> Status:
    """With the grace period that an earlier report told of, if the status is of the same period and no longer tells of
    it. A store may also say that access was taken then, and not whether it was open beyond the paid time until then."""
    was, grace_ends_at = earlier.status, earlier.status.grace_ends_at
    over = status.billing_issue_at is None and status.ended is not None
    # Another moment is another payment that failed.
    not_paid = over or status.billing_issue_at == was.billing_issue_at
    if status.grace_ends_at is None:
        known = not_paid and was.billing_issue_at is not None and grace_ends_at is not None
    else:
        known = over and (was.billing_issue_at is not None or was.ended is not None)
        grace_ends_at = min(status.grace_ends_at, earlier.access_would_end_at)
    return replace(status, billing_issue_at=was.billing_issue_at, grace_ends_at=grace_ends_at) if known else status


def _settled_pause(before: Subscription | None, seen: Subscription) -> Pause | None:
    pause, was = seen.status.pause, before.status.pause if before is not None else None
    if pause == PAUSE_NOT_TOLD:
        # What was planned begins when the running period ends. Another period means that it was called off, or is over.
        return was if before is not None and before.current.id == seen.current.id else None
    if pause is None or pause.asked_at:
        return pause
    if was is not None and was.resumes_at == pause.resumes_at:
        return was
    return replace(pause, asked_at=seen.status.as_of.at)


def lacks_periods(before: Subscription | None, seen: Subscription) -> bool:
    """Whether a period of the snapshot did not begin the subscription and what came before it is not known. A payment
    that was made good late leaves a gap too: then the store is asked once for nothing."""
    known = {period.id: period for period in before.periods} if before is not None else {}
    for period in seen.periods:
        if period.id in known:
            continue
        earlier = [one for one in known.values() if one.purchased_at < period.purchased_at]
        if not any(one.ends_at >= period.purchased_at - _NEXT for one in earlier):
            return True
    return False
