"""What takes a minute, begun with the suite, so that nothing else waits for it."""

import time
import uuid
from concurrent.futures import Executor, Future
from itertools import pairwise
from pathlib import Path
from typing import Any

from conformance.consumer import HOUR, consuming, event, now_ms, told
from conformance.https import Request, ask, serving, wait_for
from conformance.service import Service


def begin(threads: Executor, service: Service, folder: Path) -> dict[str, Future[Any]]:
    return {
        "in time": threads.submit(result_of_test_event, service, 55),
        "late": threads.submit(result_of_test_event, service, 65),
        "told to wait": threads.submit(seconds_until_asked_again, service, folder / "told", {"Retry-After": "3"}),
        "not told": threads.submit(seconds_until_asked_again, service, folder / "not", {}),
        "failed": threads.submit(seconds_between_failures, service, folder / "failed"),
        "not accepted": threads.submit(attempts_at_one_who_answers_204, service),
    }


def result_of_test_event(service: Service, seconds: int) -> Any:
    """What the service says of a test event whose receiver takes so long."""
    with serving(*service.certificates, service.host) as slow:

        def answer(_: Request) -> tuple[int, Any]:
            time.sleep(seconds)
            return 200, {}

        slow.answer = answer
        made = {"name": "conformance", "url": f"{slow.address}/slow", "event_types": ["TEST"]}
        webhook = service.call("POST", "integrations/webhooks", made)
        path = f"/v2/projects/{service.project}/integrations/webhooks/{webhook['id']}"
        ca, key = service.ca, f"Bearer {service.key}"
        reply = ask(service.base, "POST", f"{path}/test", {"type": "RENEWAL"}, ca=ca, authorization=key, patience=90)
        service.call("DELETE", path)
        return reply.json


def seconds_until_asked_again(service: Service, folder: Path, headers: dict[str, str]) -> float:
    """How long a consumer waits that was answered 429 with these headers, when it has to read a user from V2."""
    with serving(*service.certificates) as limited:
        limited.answer = lambda _: (429, {"message": "too many requests"}, headers)
        with consuming(service, folder, address=limited.address) as consumer:
            user = str(uuid.uuid4())
            late = event(user, "RENEWAL", now_ms() + 720 * HOUR, event_timestamp_ms=now_ms() - HOUR)
            told(consumer, event(user, "RENEWAL", now_ms() + 720 * HOUR), late)

            def twice() -> list[Request] | None:
                reads = [request for request in list(limited.requests) if user in request.path]
                return reads if len(reads) > 1 else None

            first, second, *_ = wait_for(twice, "the second read", 90)
            return second.at - first.at


def seconds_between_failures(service: Service, folder: Path) -> list[float]:
    """How long a consumer waits between its requests to a service that fails."""
    with serving(*service.certificates) as broken:
        broken.answer = lambda _: (503, {"message": "broken"})
        with consuming(service, folder, address=broken.address, VERIFY_TIMEOUT_MS="10000") as consumer:
            user = str(uuid.uuid4())
            assert consumer.ask("GET", "/api/entitlement/pro", user).status == 500
            asked = [request.at for request in broken.requests if user in request.path]
    return [later - earlier for earlier, later in pairwise(asked)]


def attempts_at_one_who_answers_204(service: Service) -> list[Request]:
    """The two deliveries of an event to a receiver that answers 204, and 200 after that."""
    with serving(*service.certificates, service.host) as receiver:
        user = str(uuid.uuid4())

        def attempts() -> list[Request]:
            return [request for request in list(receiver.requests) if user.encode() in request.body]

        receiver.answer = lambda _: (204 if len(attempts()) == 1 else 200, {})
        wanted = {"name": "conformance", "url": f"{receiver.address}/hook", "event_types": ["INITIAL_PURCHASE"]}
        webhook = service.call("POST", "integrations/webhooks", wanted)
        bought = {"action": "purchase", "app_user_id": user, "product_id": "pro_monthly"}
        service.call("POST", "test_store/actions", bought)
        found = wait_for(lambda: attempts() if len(attempts()) > 1 else None, "the second attempt", 60)
        service.call("DELETE", f"integrations/webhooks/{webhook['id']}")
        return found
