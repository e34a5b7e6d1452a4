"""The entry point of the `latchkey` command. Imports only the standard library, to report missing extras."""

import sys

from latchkey.process.supervision.start import loading

WITHOUT_EXTRAS = """\
No commands are installed here. The client for your own server (latchkey.client) has none; each command has an extra:
  pip install 'latchkey[service]'     the service: latchkey up, serve, migrate, key, ...
  pip install 'latchkey[consumer]'    the reference consumer for your own server: latchkey consumer
  pip install 'latchkey[runtime]'     the test phone: latchkey device
Besides the service, for traces to an OpenTelemetry collector: pip install 'latchkey[otel]'
Several at once: pip install 'latchkey[service,consumer,runtime]'
Without a command, only the client: pip install 'latchkey[client]'
In a checkout of the repository, all commands are in .venv/bin/latchkey.
"""

# As shells count it: 128 and the number of the signal.
INTERRUPTED = 130


def main() -> None:
    loading()
    try:
        from latchkey.cli.main import main as run
    except ModuleNotFoundError as missing:
        # A missing module of our own is a broken installation; no extra would help.
        if (missing.name or "latchkey").partition(".")[0] == "latchkey":
            raise
        sys.stderr.write(f"{WITHOUT_EXTRAS}(The Python module {missing.name} was not found.)\n")
        sys.exit(2)
    except KeyboardInterrupt:
        # While code is loaded there is nothing to stop. Commands handle it themselves.
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
