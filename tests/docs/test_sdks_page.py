"""docs/sdks.md: the lines that apps change."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from latchkey.domain.stores.store import STORES

PAGE = (Path(__file__).parents[2] / "docs" / "sdks.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^\*\*([A-Za-z ]+)\*\*\n```[a-z]+\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)


def test_every_sdk_has_its_lines() -> None:
    assert [name for name, _ in SNIPPETS] == ["iOS", "Android", "Flutter", "React Native", "Capacitor", "Web"]


def test_the_proxy_url_is_an_origin_with_nothing_behind_it() -> None:
    for name, code in SNIPPETS:
        [url] = re.findall(r"https://[^\"]+", code)
        assert urlsplit(url).path == "", name


def test_the_native_sdks_verify_nothing() -> None:
    for name, code in SNIPPETS:
        assert name == "Web" or re.search(r"verificationmode.*disabled", code, re.IGNORECASE), name


def test_the_keys_have_prefixes_that_exist() -> None:
    prefixes = {one.key_prefix for one in STORES.values()}
    assert {*re.findall(r"\b([a-z]+_)\.\.\.", PAGE)} <= prefixes
