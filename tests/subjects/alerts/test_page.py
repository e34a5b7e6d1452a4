"""A member's own alerts: chosen, tested, stopped by the link of a mail; nothing of it is shown to others."""

from latchkey.subjects.accounts.rules import Role
from tests.dashboard.asking import Person, somebody
from tests.dashboard.site import Site
from tests.dashboard.tab import tab

WEBHOOK = "A webhook or a destination fails"


async def test_without_mail_the_page_says_so_and_offers_slack(site: Site) -> None:
    page = await tab(site, Role.VIEWER, "/alerts")
    assert page.heading == "Alerts"
    assert "This service sends no mail." in page.notice
    assert "Send me a test" not in page.html
    await page.press("Save", {WEBHOOK: True, "How": "mail"})
    assert "LATCHKEY_SMTP_HOST" in page.alert
    assert page.ticked(WEBHOOK)
    await page.press("Save", {"How": "slack"})
    assert "Give the address of an incoming webhook." in page.alert
    await page.press("Save", {"Incoming webhook of Slack": "https://10.0.0.1/hush"})
    assert "not on the public Internet" in page.alert
    assert "hush" not in page.html
    await page.press("Save", {"Incoming webhook of Slack": f"{site.address}/hush", "Report": "weekly"})
    assert page.notice == "Saved."
    assert "hush" not in page.html
    assert "An address is saved." in page.text()
    assert page.ticked(WEBHOOK)
    await page.press("Send me a test")
    assert "on its way" in page.notice
    other = await tab(site, Role.VIEWER, "/alerts")
    assert "An address is saved." not in other.text()
    assert "Send me a test" not in other.html
    await page.press("Save", {WEBHOOK: False, "Report": "never"})
    assert page.notice == "You get nothing."


async def test_the_link_of_a_mail_asks_first_and_stops_with_one_click(site: Site) -> None:
    alerts = site.dashboard[0]._guard._services.alerts
    ada = await somebody(site, Role.VIEWER)
    account = await site.account(ada.email)

    async def subscribe() -> None:
        await alerts.subscribe(
            site.project_id, account.id, ["webhook"], "weekly", "slack", f"{site.address}/", site.clock.now
        )

    async def subscribed() -> bool:
        return (await alerts.subscription(site.project_id, account.id)).report == "weekly"

    path = alerts.stop_link(account.id, site.project_id).removeprefix(site.settings.public_url)
    stranger = Person(site)
    await subscribe()
    # Mail programs look at every link.
    asked = await stranger.get(path)
    assert (asked.status, b"Stop alerts and reports?" in asked.body) == (200, True)
    assert await subscribed()
    # RFC 8058: a form of any kind, from nowhere; and whoever is signed in needs no more than the link.
    parts = b'--x\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--x--\r\n'
    for person, sent in (
        (stranger, {"body": b"List-Unsubscribe=One-Click"}),
        (stranger, {"body": parts, "content_type": "multipart/form-data; boundary=x"}),
        (ada, {"headers": {"origin": "https://mail.example.com", "sec-fetch-site": "cross-site"}}),
    ):
        await subscribe()
        stopped = await person.ask("POST", path, **sent)
        assert (stopped.status, b"You get no more alerts" in stopped.body) == (200, True)
        assert not await subscribed()
    again = await stranger.ask("POST", path)
    assert again.status == 200
    await subscribe()
    for wrong in (f"{path[:-6]}AAAAAA", "/dashboard/alerts/stop/x"):
        for method in ("GET", "POST"):
            assert (await stranger.ask(method, wrong)).status == 404
    assert await subscribed()


async def test_the_button_of_the_page_stops_too(site: Site) -> None:
    alerts = site.dashboard[0]._guard._services.alerts
    person = await somebody(site, Role.VIEWER)
    account = await site.account(person.email)
    await alerts.subscribe(site.project_id, account.id, [], "daily", "slack", f"{site.address}/", site.clock.now)
    path = alerts.stop_link(account.id, site.project_id).removeprefix(site.settings.public_url)
    page = await tab(site, None, path)
    await page.press("Stop")
    assert page.heading == "Stopped"
    assert (await alerts.subscription(site.project_id, account.id)).report == "never"
