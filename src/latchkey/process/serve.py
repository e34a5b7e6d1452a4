"""`latchkey serve`: runs the service from settings. It refuses to start with unsafe ones."""

import asyncio
import contextlib
import os
from functools import partial
from pathlib import Path

import structlog
from msgspec.structs import replace

from latchkey import logs
from latchkey.cli import secret_key
from latchkey.cli.command import option
from latchkey.database.errors import DatabaseUnreachableError
from latchkey.database.pool import connect
from latchkey.now import real_now
from latchkey.process.database_wait import WaitOption, until_reachable, waits
from latchkey.process.safety import problems_of, problems_of_database, require_sessions, room_for_connections
from latchkey.process.supervision.listeners import bind, bind_metrics
from latchkey.process.supervision.stop_signal import StoppedError, StopSignal, stoppable
from latchkey.process.supervision.supervisor import Supervisor, plan
from latchkey.settings import PREFIX, Problem, Settings, SettingsRefusedError, gather

log = structlog.get_logger()


def serve(
    roles: str | None = option("What this machine does: some of api,clock,delivery. All unless given."),
    workers: int | None = option("How many processes answer requests; 0 means one for each core.", min=0),
    host: str | None = option("The IP address to listen on."),
    port: int | None = option("The port to listen on.", min=0, max=65535),
    config: Path | None = option("A settings file. docs/latchkey.toml lists all settings."),
    wait: WaitOption = None,
) -> None:
    """Run the service in production. Settings come from LATCHKEY_… environment variables or from a file."""
    # Command line options are passed as environment variables, so that they are validated the same way.
    given = {"ROLES": roles, "WORKERS": workers, "HOST": host, "PORT": port}
    environ = {**os.environ, **{PREFIX + name: str(value) for name, value in given.items() if value is not None}}
    settings, problems = gather(environ, config)
    logs.configure(settings.log_level, settings.log_format)
    # Stopped before anything was started.
    with contextlib.suppress(StoppedError), stoppable():
        asyncio.run(require_safe(settings, problems, wait=waits(wait)))
        listening = bind(settings.host, settings.port, settings.api_processes) if "api" in settings.roles else []
        if listening:
            settings = replace(settings, port=listening[0].getsockname()[1])
        metrics = bind_metrics(settings.metrics_host, settings.metrics_port)
        supervisor = Supervisor(plan(settings.roles, listening), metrics=metrics)
        try:
            supervisor.fork(settings.roles)
            asyncio.run(run(settings, supervisor))
        finally:
            # Those that `run` has not stopped, because it did not begin.
            supervisor.kill()


async def run(settings: Settings, supervisor: Supervisor) -> None:
    signal = StopSignal()
    signal.hurry = supervisor.kill
    try:
        await supervisor.spawn()
        supervisor.begin(settings)
        await signal.unless_asked(supervisor.wait_until_ready())
        log.info("ready", roles=settings.roles, host=settings.host, port=settings.port, tls=settings.tls)
        await signal.asked.wait()
        log.info("stopping")
    except StoppedError:
        pass
    finally:
        await supervisor.stop()


async def require_safe(settings: Settings, problems: list[Problem], *, wait: bool) -> None:
    """Raises an error that lists everything wrong with the settings, those that are malformed among them."""
    problems = problems_of(settings, real_now(), problems)
    if settings.database_url:
        try:
            problems += await until_reachable(partial(_compared_with_database, settings), wait and not problems)
        except DatabaseUnreachableError as error:
            if not problems:
                raise
            problems.append(Problem("LATCHKEY_DATABASE_URL", str(error), ""))
    if problems:
        raise SettingsRefusedError(problems)


async def _compared_with_database(settings: Settings) -> list[Problem]:
    connection = await connect(settings.database_url, application_name="latchkey start", connect_timeout=10)
    try:
        await require_sessions(settings.database_url, connection)
        if unfit := await problems_of_database(connection):
            return unfit
        if doubt := await room_for_connections(settings, connection):
            log.warning("setting does not fit", setting=doubt.setting, wrong=doubt.wrong, remedy=doubt.remedy)
        found = await secret_key.problem_with(connection, settings.secret_key) if settings.secret_key else None
        return [found] if found is not None else []
    finally:
        await connection.close()
