"""A project with something of everything, and the pages that show it."""

import re
from urllib.parse import quote

from latchkey.process.dashboard_application import EVERY_PAGE
from tests.dashboard.site import Site
from tests.http.doings import did, make_clock, told
from tests.http.management import post

# Longer than any column, without a place to break.
LONG = "w" * 90
# Pages that are no pages, or that need something that this project does not have.
ELSEWHERE = re.compile(
    r"\.csv$|\.json$|/static/|/stream|/live|/count|/fresh|/rows|/openid|/invitations/|/sign-in|/forgotten|/database|/download"
    r"|/preview|/replays/|/journal/|/exports/\{|/store-emulator|/setup|/audit/|/team/\{"
)


async def paths_of_a_full_project(site: Site) -> list[str]:
    """Fills the project, and gives the paths of all pages that can be opened without more."""
    customer = f"user-{LONG}"
    hook = (await site.hook(f"/{LONG}", name=LONG))["id"]
    for product in ("pro_monthly", "coins_100", "pro_lifetime"):
        await did(site, "purchase", customer, product)
    await site.note(customer, __email=f"{LONG}@example.com", __displayName=LONG)
    keys = (await site.client.get(f"/v2/projects/{site.project_id}/api_keys")).json()["items"]
    variants = [{"id": one, "weight": 1} for one in ("control", LONG)]
    experiment = (await post(site, "experiments", {"name": LONG, "variants": variants})).json()
    known = {
        "project_id": site.project_id,
        "customer_id": customer,
        "event_id": (await told(site, customer))[0]["id"],
        "webhook_id": hook,
        "product_id": "pro_monthly",
        "entitlement_id": "pro",
        "offering_id": "ofrng_demo_default",
        "package_id": "pkge_demo_monthly",
        "placement_id": "onboarding",
        "clock_id": await make_clock(site, name=LONG),
        "code": "COIN",
        "app_id": "app_demo",
        "key_id": keys[0]["id"],
        "experiment_id": experiment["id"],
    }
    return [
        re.sub(r"\{(\w+)[^}]*\}", lambda name: quote(known[name[1]], safe=""), page.path)
        for page in EVERY_PAGE
        if page.method == "GET"
        and not ELSEWHERE.search(page.path)
        and set(re.findall(r"\{(\w+)", page.path)) <= known.keys()
    ]
