"""What a route may reach: one object, made when the application starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from latchkey.api.metrics import Metrics
from latchkey.domain.instants import Ms
from latchkey.storage.catalogs import Catalogs
from latchkey.storage.database import Database
from latchkey.usecases.admission import Admission
from latchkey.usecases.changes import Changes
from latchkey.usecases.presence import Presence
from latchkey.usecases.reading import Reader


@dataclass(frozen=True, slots=True)
class Services:
    database: Database
    # The wall clock. Whatever concerns a customer on a test clock asks that clock instead.
    now: Callable[[], Ms]
    metrics: Metrics
    catalogs: Catalogs
    admission: Admission
    reader: Reader
    changes: Changes
    presence: Presence


def assemble(database: Database, now: Callable[[], Ms]) -> Services:
    metrics = Metrics()
    catalogs = Catalogs()
    return Services(
        database=database,
        now=now,
        metrics=metrics,
        catalogs=catalogs,
        admission=Admission(database, measure=metrics.admission_batch),
        reader=Reader(database, catalogs, measure=metrics.read_batch),
        changes=Changes(database, now, catalogs),
        presence=Presence(database, dropped=metrics.visit_dropped),
    )


def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


Provided = Annotated[Services, Depends(services_of)]
