"""READMEs of rooms: the tables, settings and pages that they name."""

import re
from collections import Counter

from latchkey.settings import Settings
from tests.tracked import ROOT

SOURCE = ROOT / "src" / "latchkey"
SCHEMA = (SOURCE / "database" / "migrations" / "0001_baseline.sql").read_text("utf-8")
READMES = {str(path.relative_to(SOURCE).parent): path.read_text("utf-8") for path in SOURCE.rglob("README.md")}


def named(what: str) -> list[str]:
    lists = [
        found for text in READMES.values() for found in re.findall(rf"^- {what}: (.+(?:\n  .+)*)", text, re.MULTILINE)
    ]
    return [name for found in lists for name in re.findall(r"`(\w+)`", found)]


def test_every_table_belongs_to_one_room() -> None:
    tables = Counter(re.findall(r"^create (?:unlogged )?table (\w+)", SCHEMA, re.MULTILINE))
    assert Counter(named("Tables")) == tables


def test_settings_that_are_named_exist() -> None:
    assert not set(named("Settings")) - set(Settings.__struct_fields__)


def test_the_page_that_says_why_exists() -> None:
    pages = {page for text in READMES.values() for page in re.findall(r"docs/[\w/-]+\.md", text)}
    assert not {page for page in pages if not (ROOT / page).is_file()}
