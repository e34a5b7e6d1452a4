"""The spans of deliveries, while traces are on: an attempt continues the trace of the request that caused the event."""

from __future__ import annotations

import time
from collections.abc import Sequence

import structlog

from latchkey.delivery.sending.reply import Answer, Reply
from latchkey.delivery.webhook import Webhook
from latchkey.storage.database import Database
from latchkey.storage.deliveries.lanes import Claim
from latchkey.storage.events import traces
from latchkey.watching import tracing
from latchkey.watching.tracing import Span, Value

log = structlog.get_logger()


async def claimed_in(database: Database, claims: Sequence[Claim], began_ns: int) -> dict[tuple[str, str], Span]:
    """The span of the claim of each event that has a trace, by project and event."""
    ended_ns = time.time_ns()
    if not claims or tracing.tracer is None:
        return {}
    try:
        found = await traces.load(database, {(one.project_id, one.event_id) for one in claims})
    except Exception as error:
        # What is claimed is sent all the same.
        log.warning("traces of deliveries not read", reason=str(error))
        return {}
    about: dict[str, Value] = {"latchkey.batch.size": len(claims)}
    return {
        event: tracing.tracer.past("delivery claim", traceparent, began_ns, ended_ns, about)
        for event, traceparent in found.items()
    }


def begun(parent: Span, claim: Claim, webhook: Webhook, host: str) -> Span | None:
    """The span of one attempt."""
    if tracing.tracer is None:
        return None
    about: dict[str, Value] = {
        "http.request.method": "POST",
        "server.address": host,
        "latchkey.webhook_id": webhook.id,
        "latchkey.event_id": claim.event_id,
        "http.request.resend_count": claim.attempts,
    }
    return tracing.tracer.child("POST webhook", parent, about, to_others=True)


def ended(span: Span, reply: Reply | Answer | None) -> None:
    """With the receiver's answer, or without one."""
    if reply is None:
        span.end({}, error="not sent")
    elif isinstance(reply, Answer) and reply.status is None:
        span.end({}, error=reply.error or "no answer")
    else:
        status = reply.status if isinstance(reply, Answer) else reply.response.status
        span.end({"http.response.status_code": status or 0}, error=None if status == 200 else f"status {status}")
