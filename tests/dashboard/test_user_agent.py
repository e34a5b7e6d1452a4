"""Browsers by their user-agent, as the account page names them."""

from __future__ import annotations

import pytest

from latchkey.dashboard.pages.account import in_words

_WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"
_IOS = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (f"Mozilla/5.0 (X11; Linux x86_64) {_WEBKIT} Chrome/141.0.0.0 Safari/537.36", "Chrome on Linux"),
        (
            f"Mozilla/5.0 (X11; Linux x86_64) {_WEBKIT} HeadlessChrome/141.0.0.0 Safari/537.36",
            "Chrome without a window on Linux",
        ),
        (
            f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {_WEBKIT} Chrome/141.0.0.0 Safari/537.36 Edg/141.0.0.0",
            "Edge on Windows",
        ),
        (
            f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {_WEBKIT} Chrome/141.0.0.0 Safari/537.36 OPR/122.0.0.0",
            "Opera on Windows",
        ),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:144.0) Gecko/20100101 Firefox/144.0", "Firefox on Windows"),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)"
            " Version/18.5 Safari/605.1.15",
            "Safari on a Mac",
        ),
        (f"{_IOS} Version/18.5 Mobile/15E148 Safari/604.1", "Safari on an iPhone"),
        (f"{_IOS} CriOS/141.0.0.0 Mobile/15E148 Safari/604.1", "Chrome on an iPhone"),
        (f"{_IOS} FxiOS/144.0 Mobile/15E148 Safari/604.1", "Firefox on an iPhone"),
        (f"Mozilla/5.0 (Linux; Android 10; K) {_WEBKIT} Chrome/141.0.0.0 Mobile Safari/537.36", "Chrome on Android"),
        (
            f"Mozilla/5.0 (Linux; Android 14; SM-S928B) {_WEBKIT} SamsungBrowser/28.0 Chrome/130.0.0.0 Safari/537.36",
            "Samsung Internet on Android",
        ),
        (f"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) {_WEBKIT} Chrome/141.0.0.0 Safari/537.36", "Chrome on ChromeOS"),
        ("Mozilla/5.0 (Windows NT 10.0)", "An unknown browser on Windows"),
        ("curl/8.14.1", "curl"),
        ("a test", "An unknown browser"),
        ("", "An unknown browser"),
    ],
)
def test_a_browser_and_its_system_are_named(agent: str, words: str) -> None:
    assert in_words(agent) == words
