"""Sends claimed deliveries, each in its own task, and puts the responses into the inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any
from urllib.parse import urlsplit

import structlog

from latchkey.delivery.dialect import body_of
from latchkey.delivery.queue.agenda import Agenda
from latchkey.delivery.queue.capacity import Capacity
from latchkey.delivery.queue.inbox import Answered, Inbox
from latchkey.delivery.queue.tracing import begun, ended
from latchkey.delivery.sending.reply import Reply
from latchkey.delivery.sending.sender import Sender
from latchkey.delivery.webhook import Webhook
from latchkey.domain.instants import Ms
from latchkey.storage.deliveries.lanes import Claim
from latchkey.watching.tracing import Span

log = structlog.get_logger()


class Dispatcher:
    def __init__(self, sender: Sender, inbox: Inbox, capacity: Capacity, agenda: Agenda) -> None:
        self._sender = sender
        self._inbox = inbox
        self._capacity = capacity
        self._agenda = agenda
        # By id() of the claim, while its task runs.
        self._running: dict[int, tuple[asyncio.Task[None], Claim]] = {}

    def __len__(self) -> int:
        return len(self._running)

    def send(self, claim: Claim, webhook: Webhook, now: Ms, within: Span | None = None) -> None:
        """`within`: the span of the claim, if the event has a trace."""
        self._capacity.begin(claim.webhook_key)
        sending = self._send(claim, webhook, now) if within is None else self._traced(claim, webhook, now, within)
        self._run(claim, sending)

    def read_rest(self, claim: Claim, webhook: Webhook, reply: Reply) -> None:
        """Wait for the body of a response whose status has arrived."""
        self._run(claim, self._read(claim, webhook, reply))

    async def wait(self) -> None:
        """Until everything that is running now has ended."""
        if self._running:
            await asyncio.wait([task for task, _ in self._running.values()])

    def cancel(self) -> list[Claim]:
        """Cancel what still runs, and return its claims."""
        unfinished = list(self._running.values())
        for task, _ in unfinished:
            task.cancel()
        return [claim for _, claim in unfinished]

    def _run(self, claim: Claim, work: Coroutine[Any, Any, None]) -> None:
        self._running[id(claim)] = asyncio.get_running_loop().create_task(work), claim

    async def _send(self, claim: Claim, webhook: Webhook, now: Ms) -> None:
        try:
            body = body_of(claim.event, claim.dialect)
            reply = await self._sender.post(webhook, claim.event_id, body, now)
            self._inbox.put(Answered(claim, webhook, reply))
        except Exception as error:
            self._failed(claim, error)
        finally:
            del self._running[id(claim)]

    async def _traced(self, claim: Claim, webhook: Webhook, now: Ms, within: Span) -> None:
        span, reply = begun(within, claim, webhook, urlsplit(webhook.setup.url).hostname or ""), None
        try:
            body = body_of(claim.event, claim.dialect)
            traceparent = span.traceparent if span is not None else None
            reply = await self._sender.post(webhook, claim.event_id, body, now, traceparent=traceparent)
            self._inbox.put(Answered(claim, webhook, reply))
        except Exception as error:
            self._failed(claim, error)
        finally:
            if span is not None:
                ended(span, reply)
            del self._running[id(claim)]

    async def _read(self, claim: Claim, webhook: Webhook, reply: Reply) -> None:
        try:
            self._inbox.put(Answered(claim, webhook, await reply.read()))
        except Exception as error:
            self._failed(claim, error)
        finally:
            del self._running[id(claim)]

    def _failed(self, claim: Claim, error: Exception) -> None:
        """Not recorded: the lease runs out and the delivery is sent again."""
        log.error("delivery failed unexpectedly", event_id=claim.event_id, exc_info=error)
        self._agenda.add(self._capacity.end([claim.webhook_key]))
