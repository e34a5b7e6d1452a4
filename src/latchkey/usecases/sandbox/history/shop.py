"""What the stores of the demo say of a purchase: the same records that their adapters make of real ones."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from latchkey.domain.instants import Duration, Ms, add
from latchkey.domain.money import Price
from latchkey.domain.purchases.purchase import Environment, Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Cause, Moment, Period, PeriodType, Status, Subscription
from latchkey.domain.stores import store as stores
from latchkey.domain.stores.store import PLAY_STORE, TEST_STORE
from latchkey.domain.stores.test_store.billing import next_moment, period_end
from latchkey.usecases.sandbox.history import market
from latchkey.usecases.sandbox.history.market import LENGTHS, PLANS


class Till:
    """Where one customer buys: a store, a country's prices, and ids like those of the store."""

    def __init__(
        self,
        store: str,
        app_id: str | None,
        country: market.Country,
        chance: Random,
        offerings: frozenset[str] = frozenset(),
    ) -> None:
        """`offerings`: the lookup keys of those that the project has."""
        self.store, self.app_id, self.country = store, app_id, country
        self._offerings = offerings
        self.environment = Environment.SANDBOX if store == TEST_STORE else Environment.PRODUCTION
        self._chance = chance

    def named(self, product: str) -> str:
        return f"{product}:{PLANS[product]}" if self.store == PLAY_STORE and product in PLANS else product

    def price(self, product: str) -> Price:
        # The test store has the catalog's prices.
        return market.price(product, "USD" if self.store == TEST_STORE else self.country.currency)

    def offering(self, product: str) -> str | None:
        named = market.OFFERINGS[product]
        return named if named in self._offerings else None

    def subscribe(self, product: str, at: Ms, *, cause: Cause = Cause.PURCHASE, intro: bool = False) -> Subscription:
        trial = cause is Cause.TRIAL
        length = market.TRIAL_LENGTH if trial else market.INTRO_LENGTH if intro else LENGTHS[product]
        price = self.price(market.INTRO if intro else product)
        id = self._id()
        period = Period(
            id=f"{id}.0" if self.store == TEST_STORE else id,
            number=0,
            cause=cause,
            product_id=self.named(product),
            period_type=PeriodType.TRIAL if trial else PeriodType.INTRO if intro else PeriodType.NORMAL,
            purchased_at=at,
            ends_at=add(at, length),
            as_of=Moment(at),
            price=replace(price, micros=0) if trial else price,
            country=self.country.code,
            offering=self.offering(product),
        )
        return Subscription(
            store=self.store,
            id=id,
            environment=self.environment,
            periods=(period,),
            status=Status(as_of=period.as_of),
            app_id=self.app_id,
        )

    def renewed(self, subscription: Subscription, at: Ms, *, follows: Ms) -> Subscription:
        """Paid at `at`, for the period that begins at `follows`."""
        current = subscription.current
        product = subscription.status.next_product_id or current.product_id
        return self._with_period(
            subscription,
            at,
            product=product,
            cause=Cause.CONVERSION if current.period_type is PeriodType.TRIAL else Cause.RENEWAL,
            ends_at=period_end(subscription, _length(product), follows),
            paid_from=follows if follows < at else None,
        )

    def changed(self, subscription: Subscription, product: str, at: Ms) -> Subscription:
        """Another product at once. What is left of the running period is given up."""
        current = replace(subscription.current, ends_at=at, as_of=next_moment(subscription, at))
        cut = replace(subscription, periods=(*subscription.periods[:-1], current))
        named = self.named(product)
        return self._with_period(
            cut,
            at,
            product=named,
            cause=Cause.CHANGE,
            ends_at=add(at, _length(named)),
            changed_from=current.product_id,
            offering=self.offering(product),
        )

    def buy(self, product: str, at: Ms) -> Purchase:
        return Purchase(
            kind=PurchaseKind.ONE_TIME,
            store=self.store,
            id=self._id("pi"),
            product_id=product,
            environment=self.environment,
            purchased_at=at,
            price=self.price(product),
            app_id=self.app_id,
            country=self.country.code,
            offering=self.offering(product),
        )

    def _with_period(
        self,
        subscription: Subscription,
        at: Ms,
        *,
        product: str,
        cause: Cause,
        ends_at: Ms,
        paid_from: Ms | None = None,
        changed_from: str | None = None,
        offering: str | None = None,
    ) -> Subscription:
        moment, number = next_moment(subscription, at), subscription.current.number + 1
        period = Period(
            id=self._period_id(subscription, number),
            number=number,
            cause=cause,
            product_id=product,
            period_type=PeriodType.NORMAL,
            purchased_at=at,
            ends_at=ends_at,
            as_of=moment,
            price=self.price(product.partition(":")[0]),
            country=self.country.code,
            paid_from=paid_from,
            changed_from=changed_from,
            offering=offering,
        )
        return replace(subscription, periods=(*subscription.periods, period), status=Status(as_of=moment))

    def _id(self, at_stripe: str = "sub") -> str:
        digits = self._chance.getrandbits(60)
        match self.store:
            case stores.APP_STORE:
                return f"2{digits % 10**15:015}"
            case stores.PLAY_STORE:
                text = f"{digits % 10**17:017}"
                return f"GPA.{text[:4]}-{text[4:8]}-{text[8:12]}-{text[12:]}"
            case stores.STRIPE:
                return f"{at_stripe}_demo{digits:015x}"
            case _:
                return f"test_demo{digits:015x}"

    def _period_id(self, subscription: Subscription, number: int) -> str:
        match self.store:
            case stores.APP_STORE:
                # Apple's transactions of one subscription have nothing in common.
                return f"2{self._chance.getrandbits(60) % 10**15:015}"
            case stores.PLAY_STORE:
                return f"{subscription.id}..{number - 1}"
            case stores.STRIPE:
                return f"in_demo{self._chance.getrandbits(60):015x}"
            case _:
                return f"{subscription.id}.{number}"


def _length(product: str) -> Duration:
    return LENGTHS[product.partition(":")[0]]
