"""The problems of a project, for the dashboard and for alerts; what each member wants to be told of; and looks, reports
and what messages say, by the clock role of any number of processes."""

import asyncio
from collections.abc import Callable, Collection
from time import monotonic

import structlog
from msgspec import Struct, json

from latchkey.database.pool import Database, Executor
from latchkey.database.sealing import UnsealableError
from latchkey.domain.formats import instant, money
from latchkey.domain.instants import DAY, MINUTE, Ms
from latchkey.domain.problem import ProblemKind, ProjectProblem
from latchkey.domain.purchases.purchase import USD, Environment
from latchkey.domain.refusal import Invalid, NotFound, Refusal
from latchkey.engine.due_work import Lookout
from latchkey.observability.watch import expiry_of
from latchkey.settings import Settings
from latchkey.subjects.alerts import render, storage
from latchkey.subjects.alerts.rules import DAYS, AlertNotice, Report, after_look, end_of_settled, next_report, unusual
from latchkey.subjects.alerts.storage import AlertSubscription
from latchkey.subjects.charts.rules.figures import CARDS, TITLES, card_headline, main_series
from latchkey.subjects.charts.usecases import FactCache, Reading, read_last_days, usual_environment
from latchkey.subjects.mail.rules import MailChart, MailText, OutgoingMail
from latchkey.subjects.mail.usecases import NO_MAIL, Mail, NotSentError, add_message
from latchkey.subjects.purchase_intake.usecases.journal import StoreHealth, standing_of
from latchkey.subjects.purchase_intake.usecases.store_connections import Connections
from latchkey.subjects.webhooks.delivery.destination import DestinationSetup, Outgoing
from latchkey.subjects.webhooks.delivery.sending.sender import Sender
from latchkey.subjects.webhooks.rules import Webhook
from latchkey.subjects.webhooks.usecases.registry import checked_url, problems_of

log = structlog.get_logger()

# Between two looks at a project.
EVERY: Ms = 5 * MINUTE
# The kind of a message to a member, among mails.
ALERT = "alert"
# A certificate that renews itself does so earlier than this.
CERTIFICATE_ENDS: Ms = 14 * DAY
# Seconds for a message to Slack.
TIMEOUT_MS = 10_000


class Alerts(Struct, frozen=True):
    settings: Settings
    stores: Connections
    charts: FactCache
    sender: Sender
    # None: no mail is sent.
    mail: Mail | None

    @property
    def database(self) -> Database:
        return self.stores.database

    @property
    def public_url(self) -> str:
        return self.settings.public_url.rstrip("/")

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
        ends = expiry_of(self.settings.tls_cert)
        if ends is None or ends * 1000 - now > CERTIFICATE_ENDS:
            return []
        words = f"It is valid until {instant(round(ends * 1000))}. Whoever runs Latchkey renews it and restarts."
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
        return await storage.find(self.database, account_id, project_id) or AlertSubscription(account_id, project_id)

    async def subscribe(
        self, project_id: str, account_id: str, kinds: Collection[str], report: Report, way: str, slack: str, now: Ms
    ) -> None:
        """What a member wants from now on. Without a new address of Slack the one that was saved stays."""
        async with self.database.transaction() as connection:
            before = await storage.find(connection, account_id, project_id) or AlertSubscription(account_id, project_id)
            if not kinds and report == "never":
                await storage.remove(connection, account_id, project_id)
                return
            sealed = before.slack
            if slack:
                checked = checked_url(slack, self.settings.webhook_allow_networks)
                sealed = self.stores.sealer.seal(checked, _place(project_id, account_id))
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
            if not await storage.lock(connection, account_id, project_id):
                raise Refusal("You get nothing yet. Choose something first.")
            if await storage.test_waits(connection, account_id, project_id):
                raise Refusal("A test message is on its way already.")
            await _add(connection, account_id, project_id, AlertNotice("test"), now)

    async def stop(self, token: str) -> None:
        """The member of this link gets nothing any more. Doing it twice changes nothing."""
        account_id, project_id = self.stopped_by(token)
        await storage.remove(self.database, account_id, project_id)

    def stop_link(self, account_id: str, project_id: str) -> str:
        return f"{self.public_url}/dashboard/alerts/stop/{self.stores.sealer.token((account_id, project_id), _STOP)}"

    def stopped_by(self, token: str) -> tuple[str, str]:
        """The account and the project of a link."""
        try:
            return self.stores.sealer.opened(token, tuple[str, str], _STOP)
        except UnsealableError:
            raise NotFound("This link is not complete. Copy it again from the mail.") from None

    async def look_next(self, now: Ms) -> bool:
        """Looks at the project that has waited longest. Returns whether there was one."""
        token = now + EVERY
        project_id = await storage.claim_watch(self.database, now, token)
        if project_id is None:
            return False
        wanted = {kind for one in await storage.subscribers(self.database, project_id) for kind in one.kinds}
        standing, are_read = await standing_of(self.stores, project_id), True
        try:
            found = await self.problems(project_id, standing, now, wanted)
        except Exception:
            # Charts cannot be read, or are being built. Where it is something else, the next line raises it too.
            log.exception("a look did without the numbers", project_id=project_id)
            found, are_read = await self.problems(project_id, standing, now, wanted - {ProblemKind.REVENUE}), False
        async with self.database.transaction() as connection:
            if not await storage.lock_watch(connection, project_id, token):
                # It took longer than a lease, and another process has looked since.
                return True
            subscribers = await storage.subscribers(connection, project_id)
            if not subscribers:
                await storage.remove_watch(connection, project_id)
                return True
            known = await storage.known_alerts(connection, project_id)
            if not are_read:
                found += [alert.problem for alert in known.values() if alert.problem.kind is ProblemKind.REVENUE]
            who = {kind: tuple(one.account_id for one in subscribers if kind in one.kinds) for kind in ProblemKind}
            kept, began, ended = after_look(known, found, now, who)
            for alert in (*began, *ended):
                notice = AlertNotice("began" if alert in began else "ended", alert.problem)
                # Who was told of a beginning is told of its end, unless it is not wanted any more.
                for account_id in set(alert.told) & set(who[alert.problem.kind]):
                    await _add(connection, account_id, project_id, notice, now)
            await storage.replace_alerts(connection, project_id, kept)
        return True

    async def add_next_report(self, now: Ms) -> bool:
        """Adds the report that is due first to the messages. Returns whether there was one."""
        async with self.database.transaction() as connection:
            due = await storage.claim_report(connection, now)
            if due is None or due.report == "never":
                return False
            await storage.postpone_report(connection, due.account_id, due.project_id, next_report(due.report, now))
            await _add(connection, due.account_id, due.project_id, AlertNotice(due.report), now)
        return True

    async def send(self, one: OutgoingMail, now: Ms) -> None:
        """A message that waits, whatever it is about. Raises NotSentError."""
        if one.kind == ALERT:
            await self._tell(one, now)
        else:
            await self._mail().send(one, now)

    def _mail(self) -> Mail:
        if self.mail is None:
            raise NotSentError("this service sends no mail any more")
        return self.mail

    async def _tell(self, one: OutgoingMail, now: Ms) -> None:
        to = await storage.find(self.database, one.account_id, one.project_id)
        if to is None or one.about is None:
            raise NotSentError("the member wants nothing any more", for_good=True)
        notice = json.decode(one.about, type=AlertNotice)
        project_url = f"{self.public_url}/dashboard/projects/{to.project_id}" if self.public_url else ""
        if notice.what in ("daily", "weekly"):
            letter = await self._report(to, 7 if notice.what == "weekly" else 1, project_url, now)
        else:
            letter = render.letter(notice, to.project, project_url)
        if to.slack is not None:
            await self._post(f"alert-{one.id}", to, letter)
        else:
            stop, settings = self.stop_link(to.account_id, to.project_id), f"{project_url}/alerts"
            await self._mail().deliver(one, to.email, letter, now, stop=stop, settings=settings)

    async def _post(self, id: str, to: AlertSubscription, letter: MailText) -> None:
        assert to.slack is not None
        try:
            url = self.stores.sealer.unseal(to.slack, _place(to.project_id, to.account_id))
        except UnsealableError as error:
            raise NotSentError(str(error), for_good=True) from None
        # As a destination: without a signature, and with the address as a secret.
        setup = json.encode(DestinationSetup(preset="slack", settings={"webhook_url": url})).decode()
        webhook = Webhook(id="alerts", name="alerts", url=url, secret="", destination=setup)
        result = await self.sender.send(webhook, id, Outgoing(url, render.slack(letter), ()))
        if not result.delivered:
            raise NotSentError(result.error or "no answer", for_good=result.status in (404, 410))

    async def _report(self, to: AlertSubscription, days: int, project_url: str, now: Ms) -> MailText:
        ends, asked = end_of_settled(now), (Reading(self.charts, monotonic()), to.project_id)
        environment = await usual_environment(*asked, now)
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
        return MailText(
            subject=f"{to.project}: {when}",
            words=f"{to.project}, {when} (UTC){sandbox}, beside the {'day' if days == 1 else 'week'} before:",
            figures=tuple(figures),
            chart=MailChart("Revenue by day", caption, values),
            link=(project_url, "Open the overview"),
        )


async def _add(connection: Executor, account_id: str, project_id: str, notice: AlertNotice, now: Ms) -> None:
    await add_message(connection, ALERT, now, notice.lasts, notice, member=(account_id, project_id))


_STOP = "alerts/stop"


def _place(project_id: str, account_id: str) -> str:
    return f"{project_id}/{account_id}/slack"


async def run_alerts(lookout: Lookout, alerts: Alerts, now: Callable[[], Ms], stop: asyncio.Event) -> None:
    """Looks, and adds reports that are due, until the lookout ends. What is under way is finished, or done again after
    its lease."""
    while await lookout.until(lambda seen: seen.alert_at) is not None:
        try:
            while not stop.is_set() and (await alerts.add_next_report(now()) or await alerts.look_next(now())):
                pass
        except Exception:
            # The database may be unreachable. Alerts are then late.
            log.exception("alerts failed")
