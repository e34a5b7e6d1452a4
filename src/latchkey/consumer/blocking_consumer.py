"""The consumer in a framework whose views block, such as Django and Flask.

The consumer itself is asynchronous. Here it runs on an event loop in a thread of its own. A request's thread gives its
endpoint to that loop and waits; what belongs to the framework's request (its body, who is signed in) is called back in
the request's thread. Every rule and every reply is the consumer's own.
"""

import asyncio
import atexit
import os
import re
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import wraps
from queue import SimpleQueue
from typing import Any, Concatenate, ParamSpec, TypeVar

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Scope

from latchkey.consumer.api.access_guard import AccessRefused, UserId
from latchkey.consumer.api.http_endpoint import reply
from latchkey.consumer.api.operator_endpoints import OPERATOR_ENDPOINTS
from latchkey.consumer.api.user_endpoints import USER_ENDPOINTS
from latchkey.consumer.consumer_settings import Settings
from latchkey.consumer.job_runner import Handler
from latchkey.consumer.reference_consumer import WEBHOOK_PATH, Consumer

log = structlog.get_logger()

P = ParamSpec("P")
T = TypeVar("T")
Read = Callable[[int], bytes]

# These are for callers that send a secret in Authorization. No browser does that by itself, so they need no protection
# against forged requests of another site.
SERVER_PATHS = (WEBHOOK_PATH, *OPERATOR_ENDPOINTS)
USER_PATHS = tuple(USER_ENDPOINTS)

CHUNK = 64 * 1024
# After a failed start, requests get the same error for this long: otherwise each would wait for the database again.
REST_SECONDS = 5.0
# At the end of a process, for jobs that are being run.
STOP_SECONDS = 25.0
_IDENTIFY = "latchkey.identify"


class RequestThread:
    """The thread of a request, which waits for a coroutine on the consumer's loop and runs what the coroutine needs of
    the framework: requests, sessions and database connections belong to this thread."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()

    async def call(self, function: Callable[[], T]) -> T:
        done: Future[T] = Future()
        self._calls.put((done, function))
        return await asyncio.wrap_future(done)

    def run(self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
        result = asyncio.run_coroutine_threadsafe(work, loop)
        result.add_done_callback(lambda _: self._calls.put(None))
        try:
            while (call := self._calls.get()) is not None:
                done, function = call
                if not done.set_running_or_notify_cancel():
                    continue
                try:
                    done.set_result(function())
                except Exception as error:
                    done.set_exception(error)
            return result.result()
        finally:
            result.cancel()


@dataclass(frozen=True)
class Running:
    consumer: Consumer
    loop: asyncio.AbstractEventLoop
    thread: threading.Thread
    stopping: asyncio.Event


class LoopThread:
    """A consumer on the event loop of a thread, made and started when a process first needs it. Servers import an app
    and then fork their workers: threads and connections made at import would not work in any of them."""

    def __init__(self, make: Callable[[], Consumer]) -> None:
        self._make = make
        self._reset()
        os.register_at_fork(after_in_child=self._reset)
        atexit.register(self.stop)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self.running: Running | None = None
        self._failure: tuple[float, Exception] | None = None

    def start(self) -> Running:
        """Starts it, unless it runs; raises what prevented the start."""
        running = self.running
        if running is None:
            with self._lock:
                running = self.running = self.running or self._started()
        if running.thread is threading.current_thread():
            raise RuntimeError("A job must not call blocking methods of its consumer: the consumer waits for the job.")
        return running

    def stop(self) -> None:
        """Running jobs are finished. The next use starts it again."""
        with self._lock:
            running, self.running = self.running, None
        if running is not None:
            running.loop.call_soon_threadsafe(running.stopping.set)
            running.thread.join(STOP_SECONDS)

    def _started(self) -> Running:
        if self._failure is not None and time.monotonic() < self._failure[0]:
            raise RuntimeError("The consumer did not start. It is tried again in a few seconds.") from self._failure[1]
        ready: Future[Running] = Future()
        live = self._live(ready)
        threading.Thread(target=asyncio.run, args=(live,), name="latchkey consumer", daemon=True).start()
        try:
            return ready.result()
        except Exception as error:
            self._failure = (time.monotonic() + REST_SECONDS, error)
            raise

    async def _live(self, ready: Future[Running]) -> None:
        stopping = asyncio.Event()
        try:
            consumer = self._make()
            async with consumer.lifespan():
                ready.set_result(Running(consumer, asyncio.get_running_loop(), threading.current_thread(), stopping))
                await stopping.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)
            # The thread of a connection to SQLite that could not be opened reports its end to this loop.
            await asyncio.sleep(1)


def blocking(
    method: Callable[Concatenate[Consumer, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["BlockingConsumer", P], T]:
    """A method of `Consumer` without `await`."""

    @wraps(method)
    def waiting(self: "BlockingConsumer", /, *given: P.args, **named: P.kwargs) -> T:
        running = self._loop.start()
        return RequestThread().run(method(running.consumer, *given, **named), running.loop)

    return waiting


class BlockingConsumer:
    """What Django's and Flask's consumers share. `identify` finds the signed-in user's id in the framework's request;
    by default it is read from a JWT. `jobs` are additional kinds of background work, by name."""

    def __init__(
        self,
        settings: Settings,
        *,
        identify: Callable[[Any], UserId] | None = None,
        jobs: Mapping[str, Handler] | None = None,
    ) -> None:
        self.settings = settings
        self._host_identify = identify
        asked = host_identify if identify is not None else None
        self._loop = LoopThread(lambda: Consumer(settings, identify=asked, jobs=jobs))

    def start(self) -> None:
        """Start background work now. Otherwise it starts with the first request or call in each process."""
        self._loop.start()

    def stop(self) -> None:
        """Finish running jobs and close connections; also called at the end of the process."""
        self._loop.stop()

    # Their docstrings are those of `Consumer`.
    view, has_entitlement = blocking(Consumer.view), blocking(Consumer.has_entitlement)
    local, balances = blocking(Consumer.local), blocking(Consumer.balances)
    experiments, invoices = blocking(Consumer.experiments), blocking(Consumer.invoices)
    later = blocking(Consumer.later)

    def _answer(self, path: str, request: Any, query: str, params: dict[str, Any], read: Read) -> Response:
        """The reply of the endpoint at this path. `read` returns the next bytes of the body, and none at its end; what
        it raises is raised here."""
        try:
            running, thread = self._loop.start(), RequestThread()
        except Exception:
            log.exception("the consumer did not start", path=path)
            return reply({"error": "Internal server error"}, 500)
        (route,) = (route for route in running.consumer.routes if isinstance(route, Route) and route.path == path)
        scope = {**self._scope(thread, request), "query_string": query.encode("latin-1"), "path_params": params}
        sent, failures = list[Message](), list[Exception]()

        async def receive() -> Message:
            try:
                chunk = await thread.call(lambda: read(CHUNK))
            except Exception as error:
                failures.append(error)
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": chunk, "more_body": bool(chunk)}

        async def send(message: Message) -> None:
            sent.append(message)

        async def exchange() -> None:
            await route.app(scope, receive, send)

        thread.run(exchange(), running.loop)
        if failures and not sent:
            raise failures[0]
        response = Response(b"".join(message.get("body", b"") for message in sent), sent[0]["status"])
        response.raw_headers = sent[0]["headers"]
        return response

    def _checked(self, entitlement_id: str, request: Any) -> str | Response:
        """The user's id, or the guard's reply to a request that is refused."""
        running, thread = self._loop.start(), RequestThread()
        guard = running.consumer.require_entitlement(entitlement_id)
        try:
            return thread.run(guard.check(Request(self._scope(thread, request))), running.loop)
        except AccessRefused as refused:
            return reply(refused.body, refused.status_code)

    def _scope(self, thread: RequestThread, request: Any) -> Scope:
        """What Django's and Flask's requests have in common, as ASGI has it."""
        identify = self._host_identify
        return {
            "type": "http",
            "method": request.method,
            "path": request.path,
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in request.headers.items()],
            _IDENTIFY: (lambda: thread.call(lambda: identify(request))) if identify is not None else None,
        }


def path_pattern(path: str, text: str) -> str:
    """A path with the frameworks' placeholders: <text:name> and <path:name> for {name} and {name:path}."""
    return re.sub(r"{(\w+)(?::(\w+))?}", lambda found: f"<{found[2] or text}:{found[1]}>", path)


def host_identify(request: Request) -> Awaitable[UserId]:
    """The consumer's `identify` where the app has its own."""
    found: Awaitable[UserId] = request.scope[_IDENTIFY]()
    return found
