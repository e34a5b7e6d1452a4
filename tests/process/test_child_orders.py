"""Settings reach a child process as they were, whatever their type."""

from ipaddress import ip_network
from pathlib import Path

from latchkey.process.supervision.supervisor_channel import (
    ChildOrders,
    decode,
    encode,
    settings_from_wire,
    settings_to_wire,
)
from latchkey.settings import Settings

FULL = Settings(
    database_url="postgresql://db/x",
    tls_cert=Path("/etc/cert.pem"),
    tls_key=Path("/etc/key.pem"),
    behind_proxy=True,
    roles=("api",),
    secret_key=bytes(range(32)),
    webhook_allow_networks=(ip_network("127.0.0.0/8"), ip_network("fc00::/7")),
    webhook_extra_ca=Path("/etc/authority.pem"),
    store_extra_ca=Path("/etc/stores.pem"),
    store_allow_hosts=("127.0.0.1:9443",),
    store_emulators=("proj_a/app_b=http://127.0.0.1:9001/control",),
    export_folder=Path("/var/lib/latchkey/exports"),
    export_allow_hosts=("minio.example.com:9000",),
    openid_extra_ca=Path("/etc/openid.pem"),
    smtp_extra_ca=Path("/etc/mail.pem"),
    mail_folder=Path("/var/lib/latchkey/mail"),
    operations_url="https://ops.example.com",
)


def test_settings_survive_the_way_to_a_child() -> None:
    for settings in (Settings(), FULL):
        sent = encode(ChildOrders(settings_to_wire(settings), settings.roles, None))
        received = settings_from_wire(decode(sent).settings)
        assert received == settings
        for name in Settings.__struct_fields__:
            assert type(getattr(received, name)) is type(getattr(settings, name)), name
