"""The user-agent of a browser in words: `Firefox on Windows`."""

from __future__ import annotations

# The first that is found counts. Most browsers also claim to be the ones further down.
_BROWSERS = (
    ("Edg/", "Edge"),
    ("EdgA/", "Edge"),
    ("EdgiOS/", "Edge"),
    ("OPR/", "Opera"),
    ("OPiOS/", "Opera"),
    ("Vivaldi/", "Vivaldi"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("DuckDuckGo/", "DuckDuckGo"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("HeadlessChrome/", "Chrome without a window"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
)
_SYSTEMS = (
    ("iPhone", "an iPhone"),
    ("iPad", "an iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Macintosh", "a Mac"),
    ("Linux", "Linux"),
    ("X11", "Unix"),
)


def in_words(agent: str) -> str:
    """What is not known is left out."""
    browser = next((title for sign, title in _BROWSERS if sign in agent), "")
    system = next((title for sign, title in _SYSTEMS if sign in agent), "")
    if not browser and not system:
        return "An unknown browser"
    return f"{browser or 'An unknown browser'} on {system}" if system else browser
