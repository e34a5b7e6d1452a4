"""Webhooks as they are configured in the dashboard."""

from typing import Any

from conformance.dashboard import Dashboard
from conformance.https import Request, serving, wait_for
from conformance.life import World
from conformance.statements import shows


@shows("1.13-17", "4.3.3", "5.2")
def test_a_webhook_is_made_in_the_dashboard_for_an_environment(world: World) -> None:
    dashboard, customer = Dashboard.signed_in(world.service), world.customer()
    with serving(*world.service.certificates, world.service.host) as receiver:

        def received(environment: str) -> list[Request]:
            return [request for request in list(receiver.requests) if request.path == f"/{environment}"]

        def wait_until_received(environment: str, event_id: Any) -> None:
            wait_for(lambda: event_id in [one.json["event"]["id"] for one in received(environment)], environment)

        for environment in ("Production", "Sandbox", "Both"):
            configuration = {
                "Name": f"conformance: {environment}",
                "Webhook URL": f"{receiver.address}/{environment}",
                "Authorization header value": f"Bearer of {environment}",
                "Environment": environment,
            }
            made = dashboard.submit(dashboard.open("webhooks/new"), "Add webhook", configuration)
            page = dashboard.open(made.links["Next: send a test event"])
            dashboard.submit(page, "Send Test Event", {"Event type": "PRODUCT_CHANGE"})
            [tested] = received(environment)
            assert tested.json["event"]["type"] == "PRODUCT_CHANGE"
        # Events of one customer arrive in order: with the last one, all before it have arrived.
        bought = [
            customer.buy("coins_100", environment=environment)[0]["id"]
            for environment in ("SANDBOX", "PRODUCTION", "SANDBOX", "PRODUCTION")
        ]
        expected = {"Production": bought[1::2], "Sandbox": bought[0::2], "Both": bought}
        for environment, ids in expected.items():
            wait_until_received(environment, ids[-1])
            seen = [one.json["event"]["id"] for one in received(environment)]
            assert [id for id in seen if id in bought] == ids, environment
            assert {one.headers["authorization"] for one in received(environment)} == {f"Bearer of {environment}"}
        configured = world.service.call("GET", "integrations/webhooks")["items"]
        for webhook in configured:
            if webhook["url"].startswith(receiver.address):
                world.service.call("DELETE", f"integrations/webhooks/{webhook['id']}")
