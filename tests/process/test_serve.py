"""`latchkey serve` with real processes: what it refuses, and that it drains."""

import base64
import ipaddress
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # ships no types
import pytest
from prometheus_client.parser import text_string_to_metric_families

from latchkey.now import real_now
from latchkey.process.local_ca.authority import LocalCertificates, ensure_certificates
from tests.cli.running import Running, ask, get, typed
from tests.databases import Shelf
from tests.patience import wait_until

KEY = base64.b64encode(b"k" * 32).decode()


@pytest.fixture
def certificates(tmp_path: Path) -> LocalCertificates:
    return ensure_certificates(tmp_path / "tls", [ipaddress.ip_address("127.0.0.1")], real_now())


def safe_settings(database_url: str, certificates: LocalCertificates) -> dict[str, str]:
    return {
        "LATCHKEY_DATABASE_URL": database_url,
        "LATCHKEY_SECRET_KEY": KEY,
        "LATCHKEY_TLS_CERT": str(certificates.cert),
        "LATCHKEY_TLS_KEY": str(certificates.key),
        "LATCHKEY_PORT": "0",
        "LATCHKEY_LOG_FORMAT": "json",
        "LATCHKEY_SHUTDOWN_DELAY_SECONDS": "0",
    }


METRICS_KEY = "only for the metrics"


def watched(database_url: str, certificates: LocalCertificates) -> dict[str, str]:
    return {**safe_settings(database_url, certificates), "LATCHKEY_METRICS_KEY": METRICS_KEY}


@pytest.fixture
def safe(database_url: str, certificates: LocalCertificates) -> dict[str, str]:
    return safe_settings(database_url, certificates)


@pytest.fixture(scope="module")
def authority(short_folder: Path) -> LocalCertificates:
    return ensure_certificates(short_folder / "serving-tls", [ipaddress.ip_address("127.0.0.1")], real_now())


@pytest.fixture(scope="module")
async def serving(shelf: Shelf, authority: LocalCertificates) -> AsyncIterator[Running]:
    """One `latchkey serve` for the tests that only look at it. It must end cleanly."""
    async with shelf.lend() as database:
        with Running("serve", "--workers", "2", **watched(database.url, authority)) as running:
            running.wait_for_event("ready")
            yield running
            assert running.terminate() == 0
            assert "Traceback" not in running.output


def address_of(running: Running) -> str:
    return f"https://127.0.0.1:{running.wait_for_event('ready')['port']}"


def test_it_serves_over_tls(serving: Running, authority: LocalCertificates) -> None:
    address = address_of(serving)
    for _ in range(8):
        assert get(address, str(authority.authority), "/readyz")[0] == 200


def test_its_secrets_are_in_no_log_argument_or_environment_of_its_processes(serving: Running) -> None:
    supervisor = psutil.Process(serving.process.pid)
    children = supervisor.children(recursive=True)
    assert sorted(child.name() for child in children) == ["api,delivery", "api,delivery", "clock"]
    for process in (supervisor, *children):
        # A child is a copy: importing all the code has started no thread.
        assert process.cmdline() == supervisor.cmdline()
        assert KEY not in " ".join(process.cmdline())
        assert not {KEY, METRICS_KEY} & set(process.environ().values())
    assert KEY not in serving.output
    assert METRICS_KEY not in serving.output


def test_any_process_answers_for_the_metrics_of_all(serving: Running, authority: LocalCertificates) -> None:
    headers = {"Authorization": f"Bearer {METRICS_KEY}"}
    status, body = get(address_of(serving), str(authority.authority), "/metrics", **headers)
    assert status == 200
    text = body.decode()
    families = {one.name: one for one in text_string_to_metric_families(text)}
    up = {sample.labels["process"]: sample.value for sample in families["latchkey_process_up"].samples}
    assert up == {"api-1": 1, "api-2": 1, "background": 1}
    for name in ("latchkey_build_info", "process_resident_memory_bytes", "latchkey_pool_size"):
        assert {sample.labels["process"] for sample in families[name].samples} == set(up), name
    # Of the database, once.
    assert [sample.value for sample in families["latchkey_database_up"].samples] == [1]
    assert families["latchkey_certificate_expires_timestamp_seconds"].samples[0].value > real_now() / 1000


def test_a_machine_with_only_the_clock_listens_nowhere(safe: dict[str, str]) -> None:
    with Running("serve", "--roles", "clock", **safe) as running:
        running.wait_for_event("ready")
        assert running.terminate() == 0


def test_a_second_service_on_the_same_port_is_refused_rather_than_sharing_it(
    serving: Running, safe: dict[str, str]
) -> None:
    port = address_of(serving).rsplit(":", 1)[1]
    told = typed("serve", "--port", port, **{**safe, "LATCHKEY_PORT": port})
    assert told.returncode == 1
    assert "is taken by another program" in told.stderr


def test_requests_that_arrive_while_a_process_restarts_wait_and_are_answered(
    safe: dict[str, str], certificates: LocalCertificates
) -> None:
    with Running("serve", "--workers", "1", "--roles", "api", **safe) as running:
        address = address_of(running)
        (child,) = psutil.Process(running.process.pid).children()
        os.kill(child.pid, signal.SIGKILL)
        running.wait_for_event("process ended")
        # No process accepts connections at this moment.
        assert get(address, str(certificates.authority), "/readyz")[0] == 200
        assert running.terminate() == 0


def test_a_stopping_process_says_so_and_goes_on_answering_until_its_delay_is_over(
    safe: dict[str, str], certificates: LocalCertificates
) -> None:
    safe["LATCHKEY_SHUTDOWN_DELAY_SECONDS"] = "3600"
    with Running("serve", "--workers", "1", "--roles", "api", **safe) as running:
        address = address_of(running)
        running.process.terminate()
        running.wait_for_event("stopping")
        wait_until(lambda: asked(address, certificates, "/readyz") == (503, "close"))
        assert asked(address, certificates, "/healthz") == (200, "close")
        # The second signal ends it at once.
        running.terminate()
        with pytest.raises(ConnectionError):
            asked(address, certificates, "/healthz")


def asked(address: str, certificates: LocalCertificates, path: str) -> tuple[int, str | None]:
    reply = ask(address, "GET", path, authority=certificates.authority)
    return reply.status, reply.headers.get("connection")


def test_unsafe_settings_are_all_told_at_once_with_exit_code_2(empty_database_url: str, tmp_path: Path) -> None:
    told = typed(
        "serve", LATCHKEY_DATABASE_URL=empty_database_url, LATCHKEY_SECRET_KEY="short", LATCHKEY_LOG_LEVEL="loud"
    )
    assert told.returncode == 2
    for words in ("LATCHKEY_SECRET_KEY", "LATCHKEY_LOG_LEVEL", "LATCHKEY_TLS_CERT", "Run `latchkey migrate`"):
        assert words in told.stderr, words
    # A malformed key is not also reported as missing.
    assert told.stderr.count("LATCHKEY_SECRET_KEY") == 1
    assert "Traceback" not in told.stderr
