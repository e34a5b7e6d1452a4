"""The entry point of the `latchkey` command. Imports only the standard library, to report missing extras."""

import json
import shlex
import sys
from importlib.metadata import distribution
from urllib.parse import urlsplit
from urllib.request import url2pathname

from latchkey.process.supervision.start import loading

WITHOUT_EXTRAS = """\
No commands are installed here. Each needs an extra:
  [up]        to try everything on this machine: latchkey up, with the service and a consumer
  [service]   the service: latchkey serve, migrate, key, ...
  [consumer]  the reference consumer for your own server: latchkey consumer
  [django]    besides the consumer, to mount it in a Django project
  [flask]     besides the consumer, to mount it in a Flask app
  [runtime]   the test phone: latchkey device
  [mcp]       tools for assistants and editors: latchkey mcp, and /mcp of the service
  [otel]      besides the service, traces to an OpenTelemetry collector
  [client]    no command: the client for your own server (latchkey.client)
Choose one or, with commas, several:
  uvx --from {up} latchkey up
  pipx install --force {up}
  pip install {several}
In a checkout of the repository, all commands are in .venv/bin/latchkey.
"""

# As shells count it: 128 and the number of the signal.
INTERRUPTED = 130


def requirement(extras: str) -> str:
    """This package with extras, as installers take it. It names the file or folder that the package was installed from:
    what an index has by the name `latchkey` may be another package."""
    origin = json.loads(distribution("latchkey").read_text("direct_url.json") or "{}").get("url", "")
    package = url2pathname(urlsplit(origin).path) if origin.startswith("file:") else "latchkey"
    return shlex.quote(f"{package}[{extras}]")


def main() -> None:
    loading()
    try:
        from latchkey.cli.main import main as run
    except ModuleNotFoundError as missing:
        # A missing module of our own is a broken installation; no extra would help.
        if (missing.name or "latchkey").partition(".")[0] == "latchkey":
            raise
        advice = WITHOUT_EXTRAS.format(up=requirement("up"), several=requirement("service,otel"))
        sys.stderr.write(f"{advice}(The Python module {missing.name} was not found.)\n")
        sys.exit(2)
    except KeyboardInterrupt:
        # While code is loaded there is nothing to stop. Commands handle it themselves.
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
