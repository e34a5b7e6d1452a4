"""What routes, pages and the clock role share, created when the process starts; and what the api role counts."""

from collections.abc import Callable, Sequence
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.database.transient_errors import WriteProbe
from latchkey.domain.instants import Ms
from latchkey.engine.admission import RefusedKeys
from latchkey.engine.changes import Changes, Deliverer
from latchkey.engine.last_seen import Presence
from latchkey.engine.missing_rates import counted as without_rate
from latchkey.engine.rate_limits import Leases, PhoneLimit, RecentCounts
from latchkey.engine.reads import Reader
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.observability.gauges import metrics_of
from latchkey.observability.histogram import SECONDS, SIZES, Tally
from latchkey.settings import Settings
from latchkey.subjects.accounts.usecases.second_factor import SecondFactors
from latchkey.subjects.alerts.usecases import TIMEOUT_MS, Alerts
from latchkey.subjects.charts.usecases import FactCache, default_folder
from latchkey.subjects.checkout.usecases.checkouts import Checkouts
from latchkey.subjects.checkout.usecases.redemption import Redemptions
from latchkey.subjects.exports.usecases.schedules import exports_of
from latchkey.subjects.mail.usecases import mail_of
from latchkey.subjects.purchase_intake.usecases.journal import NotificationInbox
from latchkey.subjects.purchase_intake.usecases.receipts import ReceiptLimit, Receipts, TemporaryGrants
from latchkey.subjects.purchase_intake.usecases.store_connections import connect
from latchkey.subjects.request_log.usecases import Idempotency
from latchkey.subjects.webhooks.delivery.sending.sender import Sender, sender_of
from latchkey.subjects.webhooks.usecases.registry import registry_of


class Metrics(Collector):
    def __init__(self) -> None:
        # By route and status; the statuses of a route are added up when /metrics is read.
        self._requests: dict[tuple[str, int], Tally] = {}
        self.batches = {kind: Tally(SIZES) for kind in ("read", "admission", "change")}
        self._visits_dropped = 0
        # How many leases of the rate limit this process holds.
        self.leases: Callable[[], int] = lambda: 0
        # Requests that could not be written to the log of their key.
        self.requests_lost: Callable[[], int] = lambda: 0

    def answered(self, route: str, status: int, seconds: float) -> None:
        tally = self._requests.get((route, status))
        if tally is None:
            tally = self._requests[route, status] = Tally(SECONDS)
        tally.add(seconds)

    def visit_dropped(self) -> None:
        self._visits_dropped += 1

    def collect(self) -> list[Metric]:
        of_route: dict[str, Tally] = {}
        for (route, _), tally in self._requests.items():
            of_route.setdefault(route, Tally(SECONDS)).merge(tally)
        return metrics_of(
            {
                "latchkey_requests": {(route, str(one)): sum(t.counts) for (route, one), t in self._requests.items()},
                "latchkey_request_seconds": of_route,
                "latchkey_batch_size": self.batches,
                "latchkey_rate_limit_leases": self.leases(),
                "latchkey_last_seen_dropped": self._visits_dropped,
                "latchkey_request_log_lost": self.requests_lost(),
                "latchkey_missing_rates": without_rate,
            }
        )


class Services:
    def __init__(
        self,
        database: Database,
        settings: Settings,
        now: Callable[[], Ms],
        metrics: Metrics,
        restarting: Callable[[], Sequence[str]] = tuple,
        deliverer: Deliverer | None = None,
    ) -> None:
        """`restarting` names the processes of this machine that crash again and again, for the health check."""
        sealer = Sealer(settings.secret_key)
        # The front, for a route that asks others with the caller's key.
        self.application: Any = None
        self.database = database
        # Of tokens that only this deployment can make.
        self.sealer = sealer
        # The wall clock. For a customer on a test clock, that clock is used instead.
        self.now = now
        self.catalogs = Catalogs()
        # Of rate limits.
        self.leases = leases = Leases(database)
        metrics.leases = leases.held
        self.refused_keys = RefusedKeys(database)
        read, admission, change = (metrics.batches[kind].add for kind in ("read", "admission", "change"))
        self.reader = Reader(database, self.catalogs, leases, measure=read, measure_keys=admission)
        self.changes = Changes(database, now, self.catalogs, measure=change, deliverer=deliverer)
        self.presence = Presence(database, dropped=metrics.visit_dropped)
        self.second_factors = SecondFactors(database, sealer)
        # None: no mail is sent.
        self.mail = mail_of(database, settings)
        self.webhooks = registry_of(database, settings)
        # Only for test events; real events are sent by the delivery role.
        self.sender = sender_of(settings, self.webhooks.mailbox, now)
        self.stores = connect(database, settings, now)
        # Notifications from stores, and receipts of real stores.
        self.inbox = NotificationInbox(self.stores)
        self.receipt_limit = ReceiptLimit(settings.unverified_receipt_bytes_per_day)
        grants = TemporaryGrants(settings.temporary_grants, settings.temporary_grants_per_hour)
        self.receipts = Receipts(self.stores, self.changes, grants, self.receipt_limit)
        # Sales of web pages.
        self.checkouts = Checkouts(self.stores, self.changes, self.reader, self.receipts, self.mail)
        self.redemptions = Redemptions(self.checkouts)
        self.charts = FactCache(database, settings.charts_folder or default_folder())
        # The addresses of members are guarded as those of webhooks are.
        allowed, extra_ca = settings.webhook_allow_networks, settings.webhook_extra_ca
        sender = Sender(now, timeout_ms=TIMEOUT_MS, allowed=allowed, extra_ca=extra_ca)
        self.alerts = Alerts(settings, self.stores, self.charts, sender, self.mail)
        # Exports that run by themselves.
        self.exports = exports_of(database, settings)
        # For requests with public keys.
        self.phone_limit = PhoneLimit(settings.address_requests_per_minute)
        # Of members, by account.
        self.console_requests = RecentCounts()
        # Of requests with an Idempotency-Key.
        self.idempotency = Idempotency(database, sealer, now)
        self.write_probe = WriteProbe(database)
        self.restarting = restarting
        # Whether a proxy in front sends the client's address.
        self.behind_proxy = settings.behind_proxy
        # Where people reach this service; may be empty.
        self.public_url = settings.public_url
        # Whether a secret key may create projects.
        self.keys_create_projects = settings.keys_create_projects

    async def close(self) -> None:
        """Finishes what is under way."""
        await self.inbox.drain()
        await self.receipts.drain()
        await self.changes.drain()
        await self.charts.end()
        await self.presence.stop()
        await self.leases.close()
        await self.sender.close()
        await self.alerts.sender.close()
        await self.stores.close()
