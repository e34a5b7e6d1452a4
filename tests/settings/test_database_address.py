"""The address of the database, with one host or several."""

from __future__ import annotations

import pytest

from latchkey.database_address import parse, without_password


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        (
            "postgresql://bob:pw@db1:5432,db2:5433/app?sslmode=require",
            {
                "db1:5432": "postgresql://bob:pw@db1:5432/app?sslmode=require",
                "db2:5433": "postgresql://bob:pw@db2:5433/app?sslmode=require",
            },
        ),
        (
            "postgresql://db1,[::1]:5433,db3/app",
            {
                "db1": "postgresql://db1/app",
                "[::1]:5433": "postgresql://[::1]:5433/app",
                "db3": "postgresql://db3/app",
            },
        ),
        (
            "postgresql:///app?user=bob&host=/run/a,/run/b&port=5432,5433",
            {
                "/run/a:5432": "postgresql:///app?user=bob&host=%2Frun%2Fa&port=5432",
                "/run/b:5433": "postgresql:///app?user=bob&host=%2Frun%2Fb&port=5433",
            },
        ),
        (
            "postgresql://bob@/app?host=/run/a,/run/b",
            {
                "/run/a": "postgresql://bob@/app?host=%2Frun%2Fa",
                "/run/b": "postgresql://bob@/app?host=%2Frun%2Fb",
            },
        ),
        ("postgresql://bob@db/app", {"db": "postgresql://bob@db/app"}),
        ("postgresql:///app?host=/run/a", {"/run/a": "postgresql:///app?host=/run/a"}),
    ],
)
def test_each_host_has_an_address_of_its_own(url: str, hosts: dict[str, str]) -> None:
    found = parse(url)
    assert {host.name: host.url for host in found.hosts} == hosts
    assert found.is_cluster is found.wants_primary is (len(hosts) > 1)


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("mysql://db/app", "must begin with postgresql"),
        ("host=db password=hunter2", "must begin with postgresql"),
        ("postgresql://bob:hunter2@db1,,db2/app", "is empty"),
        ("postgresql://bob:hunter2@db1,db2,/app", "is empty"),
        ("postgresql://bob:hunter2@db1:x,db2/app", "a port must be a number"),
        ("postgresql://bob:hunter2@db1:70000,db2/app", "a port must be a number"),
        ("postgresql:///app?host=/a,/b,/c&port=1,2&password=hunter2", "one port for all hosts"),
        ("postgresql://bob:hunter2@db1,db2/app?target_session_attrs=any", "must be read-write"),
        ("postgresql://bob:hunter2@db1,db2/app?target_session_attrs=standby", "must be read-write"),
        ("postgresql://bob:hunt@er2@db1,db2/app", "percent-encoded"),
        ("postgresql://bob:12/hunter2@db1,db2/app", "percent-encoded"),
        ("postgresql://bob:12#hunter2@db1,db2/app", "percent-encoded"),
        ("postgresql://bob:hunter2@[::1/app", "not a URL"),
    ],
)
def test_an_address_that_cannot_work_is_refused_without_quoting_it(url: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong) as refused:
        parse(url)
    for secret in ("hunter2", "hunt", "er2", "bob"):
        assert secret not in str(refused.value)
        assert secret not in without_password(url)


def test_the_primary_can_be_asked_for_by_name() -> None:
    assert parse("postgresql://db1,db2/app?target_session_attrs=read-write").wants_primary
    assert parse("postgresql://db/app?target_session_attrs=primary").wants_primary
    assert not parse("postgresql://db/app?target_session_attrs=any").wants_primary


def test_several_hosts_are_shown_without_the_password() -> None:
    shown = "postgresql://bob@db1:5432,db2:5433/app"
    assert without_password("postgresql://bob:hunter2@db1:5432,db2:5433/app?password=hunter2") == shown
    assert "hunter2" not in repr(parse("postgresql://bob:hunter2@db1,db2/app"))
