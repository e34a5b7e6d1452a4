"""Finds and starts the browser."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from latchkey.runtime.errors import CannotShowError, ChromiumMissingError

VARIABLE = "LATCHKEY_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_MAC = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
FLAGS = (
    # As root, and in most containers, Chromium cannot create its own sandbox and would not start.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    # In tests the device connects only to the app.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> Path:
    if named := os.environ.get(VARIABLE):
        if not os.access(named, os.X_OK):
            raise ChromiumMissingError(f"{VARIABLE} is {named}, which is not a program.")
        return Path(named)
    for name in NAMES:
        if found := shutil.which(name):
            return Path(found)
    for place in _MAC:
        if os.access(place, os.X_OK):
            return Path(place)
    raise ChromiumMissingError(
        "There is no Chromium on this machine. Install it (Debian: `sudo apt-get install chromium`; Fedora: "
        "`sudo dnf install chromium`; macOS: `brew install --cask chromium`), or set "
        f"{VARIABLE} to the path of a Chromium or Chrome."
    )


def require_screen() -> None:
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise CannotShowError("There is no screen here for a window (DISPLAY is not set). Leave out --window.")
