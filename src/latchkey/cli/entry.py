"""The entry point of the `latchkey` command. Imports only the standard library, to report missing extras."""

import json
import os
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
# uv names itself in `UV` for what it runs. The other says that it already runs this command with its extra.
UV, WITH_EXTRA = "UV", "LATCHKEY_UP_HAS_ITS_EXTRA"


def requirement(extras: str) -> str:
    """This package with extras, as installers take it. It names the file or folder that the package was installed from:
    what an index has by the name `latchkey` may be another package."""
    origin = json.loads(distribution("latchkey").read_text("direct_url.json") or "{}").get("url", "")
    package = url2pathname(urlsplit(origin).path) if origin.startswith("file:") else "latchkey"
    return f"{package}[{extras}]"


def run_up_with_its_extra() -> None:
    """`uvx --from FILE latchkey up` installs no extras; uv, which runs it, can."""
    uv = os.environ.get(UV)
    if uv is None or WITH_EXTRA in os.environ or sys.argv[1:2] != ["up"]:
        return
    words = [uv, "tool", "run", "--from", requirement("up"), "latchkey", *sys.argv[1:]]
    sys.stderr.write(f"`latchkey up` needs the extra `up`: {shlex.join(words)}\n")
    os.execve(uv, words, {**os.environ, WITH_EXTRA: "1"})  # noqa: S606  # uv, by the path that it gave itself


def main() -> None:
    loading()
    try:
        from latchkey.cli.main import main as run
    except ModuleNotFoundError as missing:
        # A missing module of our own is a broken installation; no extra would help.
        if (missing.name or "latchkey").partition(".")[0] == "latchkey":
            raise
        run_up_with_its_extra()
        up, several = shlex.quote(requirement("up")), shlex.quote(requirement("service,otel"))
        advice = WITHOUT_EXTRAS.format(up=up, several=several)
        sys.stderr.write(f"{advice}(The Python module {missing.name} was not found.)\n")
        sys.exit(2)
    except KeyboardInterrupt:
        # While code is loaded there is nothing to stop. Commands handle it themselves.
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
