"""`latchkey serve`: runs the service from settings. It refuses to start with unsafe ones."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Annotated

import structlog
import typer
from msgspec.structs import replace

from latchkey import logs
from latchkey.cli import secret_key
from latchkey.cli.filled import until_filled
from latchkey.cli.listeners import bind, bind_metrics
from latchkey.cli.stop_signal import StoppedError, StopSignal, stoppable
from latchkey.cli.supervisor import Supervisor, plan
from latchkey.now import real_now
from latchkey.safety import problems_of, problems_of_database, room_for_connections
from latchkey.settings import PREFIX, Problem, Settings, SettingsRefusedError, gather
from latchkey.storage.database import connect

log = structlog.get_logger()


def serve(
    roles: Annotated[
        str | None, typer.Option(help="What this machine does: some of api,clock,delivery. All unless given.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="How many processes answer requests; 0 means one for each core.", min=0)
    ] = None,
    host: Annotated[str | None, typer.Option(help="The IP address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen on.", min=0, max=65535)] = None,
    config: Annotated[Path | None, typer.Option(help="A settings file. docs/latchkey.toml lists all settings.")] = None,
) -> None:
    """Run the service in production. Settings come from LATCHKEY_… environment variables or from a file."""
    # Command line options are passed as environment variables, so that they are validated the same way.
    given = {"ROLES": roles, "WORKERS": workers, "HOST": host, "PORT": port}
    environ = {**os.environ, **{PREFIX + name: str(value) for name, value in given.items() if value is not None}}
    settings, doubts = asyncio.run(safe_settings(environ, config))
    logs.configure(settings.log_level, settings.log_format)
    for doubt in doubts:
        log.warning("setting does not fit", setting=doubt.setting, wrong=doubt.wrong, remedy=doubt.remedy)
    # Stopped before anything was started.
    with contextlib.suppress(StoppedError), stoppable():
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
        # With everything loaded, so that it serves within a second of the switch.
        await signal.unless_asked(until_filled(settings.database_url))
        supervisor.begin(settings)
        await signal.unless_asked(supervisor.wait_until_ready())
        log.info("ready", roles=settings.roles, host=settings.host, port=settings.port, tls=settings.tls)
        await signal.asked.wait()
        log.info("stopping")
    except StoppedError:
        pass
    finally:
        await supervisor.stop()


async def safe_settings(environ: dict[str, str], config: Path | None) -> tuple[Settings, list[Problem]]:
    """The settings, or an error that lists everything wrong with them. The second are doubts, with which we start."""
    settings, problems = gather(environ, config)
    doubts: list[Problem] = []
    reported = {problem.about for problem in problems}
    problems += [problem for problem in problems_of(settings, real_now()) if problem.about not in reported]
    if settings.database_url:
        unfit = await problems_of_database(settings, real_now())
        found, doubts = await _compared_with_database(settings) if not unfit else (unfit, doubts)
        problems += found
    if problems:
        raise SettingsRefusedError(problems)
    return settings, doubts


async def _compared_with_database(settings: Settings) -> tuple[list[Problem], list[Problem]]:
    connection = await connect(settings.database_url, application_name="latchkey start")
    try:
        found = await secret_key.problem_with(connection, settings.secret_key) if settings.secret_key else None
        doubt = await room_for_connections(settings, connection)
    finally:
        await connection.close()
    return [found] if found is not None else [], [doubt] if doubt is not None else []
