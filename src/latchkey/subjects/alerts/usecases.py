"""The problems of a project, for the dashboard and for alerts; what each member wants to be told of; and looks, reports
and messages, by the clock role of any number of processes."""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64Error
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import structlog
from msgspec import Struct, json
from msgspec.structs import replace

from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer, UnsealableError
from latchkey.domain.formats import instant, money
from latchkey.domain.instants import DAY, MINUTE, SECOND, Ms
from latchkey.domain.outgoing_address import Network
from latchkey.domain.problem import ProblemKind, ProjectProblem
from latchkey.domain.purchases.purchase import USD, Environment
from latchkey.domain.refusal import Invalid, NotFound, Refusal
from latchkey.engine.due_work import Lookout
from latchkey.observability.watch import expiry_of
from latchkey.settings import Settings
from latchkey.subjects.alerts import render, storage
from latchkey.subjects.alerts.render import AlertLetter, Chart
from latchkey.subjects.alerts.rules import (
    DAYS,
    Alert,
    AlertNotice,
    Report,
    after_look,
    end_of_settled,
    next_report,
    unusual,
)
from latchkey.subjects.alerts.storage import AlertSubscriber, AlertSubscription, Message
from latchkey.subjects.charts.rules.figures import CARDS, TITLES, card_headline, main_series
from latchkey.subjects.charts.usecases import FactCache, read_last_days, usual_environment
from latchkey.subjects.mail.usecases import Mail, NotSentError
from latchkey.subjects.purchase_intake.usecases.journal import StoreHealth, standing_of
from latchkey.subjects.purchase_intake.usecases.store_connections import Connections
from latchkey.subjects.webhooks.delivery.destination import DestinationSetup, Outgoing
from latchkey.subjects.webhooks.delivery.sending.sender import Sender
from latchkey.subjects.webhooks.rules import Webhook
from latchkey.subjects.webhooks.usecases.registry import checked_url, problems_of

log = structlog.get_logger()

# Between two looks at a project.
EVERY: Ms = 5 * MINUTE
LEASE: Ms = 5 * MINUTE
FIRST_PAUSE: Ms = 30 * SECOND
LONGEST_PAUSE: Ms = 30 * MINUTE
# A certificate that renews itself does so earlier than this.
CERTIFICATE_ENDS: Ms = 14 * DAY
# Seconds for a message to Slack.
TIMEOUT_MS = 10_000
LONGEST_ADDRESS = 1_000
NO_MAIL = (
    "This service sends no mail. Whoever runs it sets LATCHKEY_SMTP_HOST, LATCHKEY_MAIL_FROM and LATCHKEY_PUBLIC_URL."
)


class Alerts(Struct, frozen=True):
    database: Database
    sealer: Sealer
    stores: Connections
    charts: FactCache
    sender: Sender
    # None: no mail is sent.
    mail: Mail | None
    public_url: str
    # Of this service, if it ends TLS itself.
    certificate: Path | None
    allowed: Sequence[Network]

    async def problems(
        self, project_id: str, standing: StoreHealth, now: Ms, kinds: Collection[str] = tuple(ProblemKind)
    ) -> list[ProjectProblem]:
        """All of these kinds that somebody has to look at. To read the numbers takes longer than all others."""
        numbers = await self._numbers(project_id, now) if ProblemKind.REVENUE in kinds else []
        webhooks = await problems_of(self.database, project_id)
        return [
            problem
            for problem in (*standing.problems, *webhooks, *self._certificate(now), *numbers)
            if problem.kind in kinds
        ]

    def _certificate(self, now: Ms) -> list[ProjectProblem]:
        ends = expiry_of(self.certificate)
        if ends is None or ends * 1000 - now > CERTIFICATE_ENDS:
            return []
        words = f"It is valid until {instant(round(ends * 1000))}. Whoever runs Latchkey renews it."
        kind = ProblemKind.CERTIFICATE
        return [ProjectProblem(id="certificate", kind=kind, title="The certificate is about to end.", words=words)]

    async def _numbers(self, project_id: str, now: Ms) -> list[ProjectProblem]:
        asked = ["revenue"], Environment.PRODUCTION, DAYS, USD, end_of_settled(now)
        data = (await read_last_days(self.charts, project_id, *asked))["revenue"]
        days = {line.measure: [abs(value or 0) for value in line.values] for line in data.series}
        found = unusual(days["transactions"], days["gross"], days["refunds"])
        titles = {"revenue": ("Revenue", days["gross"]), "refunds": ("Refunds", days["refunds"])}
        return [
            ProjectProblem(
                id=f"numbers/{name}",
                kind=ProblemKind.REVENUE,
                title=f"{titles[name][0]} {'is' if name == 'revenue' else 'are'} out of the usual range.",
                words=f"{money(titles[name][1][-1])} on {data.periods[-1].label}. Usual on this weekday: "
                f"{money(usual.low)} to {money(usual.high)}.",
                path="charts/revenue",
                link="Open the chart",
            )
            for name, usual in found.items()
        ]

    async def subscription(self, project_id: str, account_id: str) -> AlertSubscription:
        return await storage.find(self.database, account_id, project_id) or AlertSubscription()

    async def subscribe(
        self, project_id: str, account_id: str, kinds: Collection[str], report: Report, way: str, slack: str, now: Ms
    ) -> None:
        """What a member wants from now on. Without a new address of Slack the one that was saved stays."""
        async with self.database.transaction() as connection:
            before = await storage.find(connection, account_id, project_id) or AlertSubscription()
            if not kinds and report == "never":
                await storage.remove(connection, account_id, project_id)
                return
            sealed = self._sealed(project_id, account_id, slack) if slack else before.slack
            if way == "mail":
                sealed = None
                if self.mail is None:
                    raise Refusal(NO_MAIL, param="way")
            elif sealed is None:
                raise Invalid("Give the address of an incoming webhook.", param="slack")
            report_at = before.report_at if report == before.report else next_report(report, now)
            await storage.save(connection, account_id, project_id, sorted(kinds), report, sealed, report_at)
            if kinds:
                await storage.watch(connection, project_id, now)

    async def send_test(self, project_id: str, account_id: str, now: Ms) -> None:
        async with self.database.transaction() as connection:
            if await storage.find(connection, account_id, project_id) is None:
                raise Refusal("You get nothing yet. Choose something first.")
            await storage.add_message(connection, account_id, project_id, AlertNotice("test"), now)

    async def stop(self, token: str) -> None:
        """The member of this link gets nothing any more. Doing it twice changes nothing."""
        account_id, project_id = self.stopped_by(token)
        await storage.remove(self.database, account_id, project_id)

    def stop_link(self, account_id: str, project_id: str) -> str:
        sealed = self.sealer.seal(json.encode((account_id, project_id)).decode(), _STOP)
        return f"{self.public_url}/dashboard/alerts/stop/{urlsafe_b64encode(sealed).decode().rstrip('=')}"

    def stopped_by(self, token: str) -> tuple[str, str]:
        """The account and the project of a link."""
        try:
            sealed = urlsafe_b64decode(token.encode() + b"==")
            return json.decode(self.sealer.unseal(sealed, _STOP), type=tuple[str, str])
        except (NotBase64Error, UnsealableError, UnicodeError):
            raise NotFound("This link is not complete. Copy it again from the mail.") from None

    def _sealed(self, project_id: str, account_id: str, slack: str) -> bytes:
        if len(slack) > LONGEST_ADDRESS:
            raise Invalid(f"An address has at most {LONGEST_ADDRESS:,} characters.", param="slack")
        return self.sealer.seal(checked_url(slack, self.allowed), _place(project_id, account_id))

    async def look_next(self, now: Ms) -> bool:
        """Looks at the project that has waited longest. Returns whether there was one."""
        token = now + EVERY
        project_id = await storage.claim_watch(self.database, now, token)
        if project_id is None:
            return False
        wanted = {kind for one in await storage.subscribers(self.database, project_id) for kind in one.kinds}
        found = await self.problems(project_id, await standing_of(self.stores, project_id), now, wanted)
        async with self.database.transaction() as connection:
            if not await storage.lock_watch(connection, project_id, token):
                # It took longer than a lease, and another process has looked since.
                return True
            subscribers = await storage.subscribers(connection, project_id)
            if not subscribers:
                await storage.remove_watch(connection, project_id)
                return True
            known = await storage.known_alerts(connection, project_id)
            kept, began, ended = after_look(known, found, now)
            began = [replace(alert, told=_who(subscribers, alert)) for alert in began]
            notices = [
                *((alert, AlertNotice("began", alert.problem)) for alert in began),
                *((alert, AlertNotice("ended", alert.problem)) for alert in ended),
            ]
            for alert, notice in notices:
                # Who was told of a beginning is told of its end, unless it is not wanted any more.
                for account_id in set(alert.told) & set(_who(subscribers, alert)):
                    await storage.add_message(connection, account_id, project_id, notice, now)
            kept = [*began, *(alert for alert in kept if alert.told_at != now)]
            await storage.replace_alerts(connection, project_id, kept)
        return True

    async def add_next_report(self, now: Ms) -> bool:
        """Adds the report that is due first to the messages. Returns whether there was one."""
        async with self.database.transaction() as connection:
            due = await storage.claim_report(connection, now)
            if due is None or due.report == "never":
                return False
            await storage.postpone_report(connection, due.account_id, due.project_id, next_report(due.report, now))
            await storage.add_message(connection, due.account_id, due.project_id, AlertNotice(due.report), now)
        return True

    async def send_next(self, now: Callable[[], Ms]) -> bool:
        """Sends the message that has waited longest. Returns whether there was one."""
        message = await storage.claim_message(self.database, now(), now() + LEASE)
        if message is None:
            return False
        about = {"alert": message.id, "what": message.notice.what, "project_id": message.project_id}
        if message.expires_at <= now():
            log.warning("alert given up", **about, attempts=message.attempts)
        else:
            try:
                await self._send(message, now())
                log.info("alert sent", **about)
            except NotSentError as error:
                log.warning("alert not sent", **about, attempts=message.attempts, error=str(error))
                if not error.for_good:
                    pause = min(FIRST_PAUSE << min(message.attempts - 1, 20), LONGEST_PAUSE)
                    await storage.postpone(self.database, message.id, now() + pause)
                    return True
        await storage.remove_message(self.database, message.id)
        return True

    async def _send(self, message: Message, now: Ms) -> None:
        project_url = f"{self.public_url}/dashboard/projects/{message.project_id}" if self.public_url else ""
        if message.notice.what in ("daily", "weekly"):
            letter = await self._report(message, project_url, now)
        else:
            letter = render.letter(message.notice, message.project, project_url)
        if message.slack is not None:
            await self._post(message, letter)
            return
        if self.mail is None:
            raise NotSentError("this service sends no mail any more")
        made = render.mail(
            letter,
            sender=self.mail.sender,
            to=message.email,
            # The same with every attempt, so that a mail program shows one of them.
            message_id=f"<alert-{message.id}@latchkey.invalid>",
            at=now,
            stop=self.stop_link(message.account_id, message.project_id),
            settings=f"{project_url}/alerts",
        )
        await asyncio.to_thread(self.mail.way.send, made, f"alert-{message.id}")

    async def _post(self, message: Message, letter: AlertLetter) -> None:
        assert message.slack is not None
        try:
            url = self.sealer.unseal(message.slack, _place(message.project_id, message.account_id))
        except UnsealableError as error:
            raise NotSentError(str(error), for_good=True) from None
        # As a destination: without a signature, and with the address as a secret.
        setup = json.encode(DestinationSetup(preset="slack", settings={"webhook_url": url})).decode()
        to = Webhook(id="alerts", name="alerts", url=url, secret="", destination=setup)
        result = await self.sender.send(to, f"alert-{message.id}", Outgoing(url, render.slack(letter), ()))
        if not result.delivered:
            raise NotSentError(result.error or "no answer", for_good=result.status in (404, 410))

    async def _report(self, message: Message, project_url: str, now: Ms) -> AlertLetter:
        ends, days = end_of_settled(now), 7 if message.notice.what == "weekly" else 1
        environment = await usual_environment(self.charts, message.project_id, now)
        asked = self.charts, message.project_id
        found = await read_last_days(*asked, CARDS, environment, days, USD, ends, compare=True)
        drawn = (await read_last_days(*asked, ["revenue"], environment, 28, USD, ends))["revenue"]
        figures = []
        for name in CARDS:
            if (main := main_series(found[name])) is not None:
                headline = card_headline(found[name], main)
                figures.append((TITLES.get(name, found[name].definition.title), headline.value, headline.change))
        line = main_series(drawn)
        values = tuple((value or 0) / 1_000_000 for value in line.values) if line is not None else ()
        first, last = found["revenue"].periods[0].label, drawn.periods[-1].label
        when = f"{first} to {last}" if days > 1 else last
        sandbox = ", in the sandbox" if environment is Environment.SANDBOX else ""
        caption = f"{drawn.periods[0].label} to {last}. The highest bar is {money(max(values, default=0) * 1_000_000)}."
        return AlertLetter(
            subject=f"{message.project}: {when}",
            words=f"{message.project}, {when} (UTC){sandbox}, beside the {'day' if days == 1 else 'week'} before:",
            figures=tuple(figures),
            chart=Chart("Revenue by day", caption, values),
            link=(project_url, "Open the overview"),
        )


def _who(subscribers: Sequence[AlertSubscriber], alert: Alert) -> tuple[str, ...]:
    return tuple(one.account_id for one in subscribers if alert.problem.kind in one.kinds)


_STOP = "alerts/stop"


def alerts_of(
    database: Database, settings: Settings, stores: Connections, charts: FactCache, sender: Sender, mail: Mail | None
) -> Alerts:
    return Alerts(
        database=database,
        sealer=Sealer(settings.secret_key),
        stores=stores,
        charts=charts,
        sender=sender,
        mail=mail,
        public_url=settings.public_url.rstrip("/"),
        certificate=settings.tls_cert,
        allowed=settings.webhook_allow_networks,
    )


def _place(project_id: str, account_id: str) -> str:
    return f"{project_id}/{account_id}/slack"


async def run_alerts(lookout: Lookout, alerts: Alerts, now: Callable[[], Ms], stop: asyncio.Event) -> None:
    """Looks, reports and sends what is due until the lookout ends. What is under way is finished, or done again after
    its lease."""
    while await lookout.until(lambda seen: seen.alert_at) is not None:
        try:
            while not stop.is_set() and (
                await alerts.send_next(now) or await alerts.add_next_report(now()) or await alerts.look_next(now())
            ):
                pass
        except Exception:
            # The database may be unreachable, or charts are being built. Alerts are then late.
            log.exception("alerts failed")
