"""The exports of all projects, as the settings say. Imports no web framework: the clock role uses it too."""

from __future__ import annotations

from latchkey.delivery.sealing import Sealer
from latchkey.settings import Settings
from latchkey.storage.database import Database
from latchkey.usecases.exports.schedules import Exports


def exports_of(database: Database, settings: Settings) -> Exports:
    sealer = Sealer(settings.secret_key)
    return Exports(database, sealer, settings.export_folder, frozenset(settings.export_allow_hosts))
