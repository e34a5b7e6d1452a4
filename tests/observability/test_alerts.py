"""Each alert fires in its situation, and only there: Prometheus' own `promtool` evaluates the shipped rules."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.machine import skip

RULES = Path(__file__).parents[2] / "deploy/watching/alerts.yaml"
GROUPS = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
HOURS = 4

# Series of a healthy deployment of two machines: first value + step x repetitions, with a sample a minute.
FOREVER = f"x{HOURS * 60}"
HEALTHY = {
    **{f'up{{job="latchkey",instance="{machine}"}}': f"1+0{FOREVER}" for machine in "ab"},
    **{f'latchkey_process_up{{instance="{machine}",process="api-1"}}': f"1+0{FOREVER}" for machine in "ab"},
    **{f'latchkey_database_up{{instance="{machine}"}}': f"1+0{FOREVER}" for machine in "ab"},
    'latchkey_database_node_up{node="n:5432"}': f"1+0{FOREVER}",
    "latchkey_lossy_failovers": f"0+0{FOREVER}",
    'latchkey_requests_total{status="200"}': f"0+6000{FOREVER}",
    'latchkey_requests_total{status="500"}': f"0+6{FOREVER}",
    'latchkey_requests_total{status="429"}': f"0+6{FOREVER}",
    'latchkey_requests_total{status="401"}': f"0+6{FOREVER}",
    'latchkey_request_seconds_bucket{le="0.1"}': f"0+5990{FOREVER}",
    'latchkey_request_seconds_bucket{le="5"}': f"0+6000{FOREVER}",
    'latchkey_request_seconds_bucket{le="+Inf"}': f"0+6000{FOREVER}",
    'latchkey_pool_waiting{instance="a",process="api-1"}': f"0+0{FOREVER}",
    "latchkey_delivery_lag_seconds": f"2+0{FOREVER}",
    'latchkey_deliveries_waiting{webhook="w"}': f"5000-1{FOREVER}",
    'latchkey_oldest_delivery_seconds{webhook="w"}': f"3600+0{FOREVER}",
    'latchkey_webhook_failing_seconds{webhook="w"}': f"60+0{FOREVER}",
    'latchkey_webhooks{state="paused"}': f"0+0{FOREVER}",
    "latchkey_delivery_leases_lost_total": f"0+1{FOREVER}",
    "latchkey_clock_lag_seconds": f"1+0{FOREVER}",
    "latchkey_store_journal_lag_seconds": f"1+0{FOREVER}",
    'latchkey_store_notifications{status="failed"}': f"7+0{FOREVER}",
    "latchkey_customer_lists_lag_seconds": f"1+0{FOREVER}",
    # `promtool` begins at the epoch, so this certificate ends in 30 days.
    'latchkey_certificate_expires_timestamp_seconds{instance="a"}': f"2592000+0{FOREVER}",
}
ALL_DOWN = {series: f"0+0{FOREVER}" for series in HEALTHY if series.startswith("up{")}
# What is wrong, and the alerts that fire then.
SITUATIONS: dict[str, tuple[dict[str, str | None], set[str]]] = {
    "nothing": ({}, set()),
    "one machine cannot be scraped": (
        {'up{job="latchkey",instance="a"}': f"0+0{FOREVER}"},
        {"LatchkeyMachineDown"},
    ),
    "no machine can be scraped": (
        {**dict.fromkeys(HEALTHY), **ALL_DOWN},
        {"LatchkeyGone", "LatchkeyMachineDown"},
    ),
    "Prometheus has no target": (dict.fromkeys(HEALTHY), {"LatchkeyGone"}),
    "a process does not answer": (
        {'latchkey_process_up{instance="a",process="api-1"}': f"0+0{FOREVER}"},
        {"LatchkeyProcessDown"},
    ),
    "the database is away": ({'latchkey_database_up{instance="a"}': f"0+0{FOREVER}"}, {"LatchkeyDatabaseUnreachable"}),
    "a node of the database is away": (
        {'latchkey_database_node_up{node="n:5432"}': f"0+0{FOREVER}"},
        {"LatchkeyDatabaseNodeAway"},
    ),
    "a failover may have lost commits": ({"latchkey_lossy_failovers": f"1+0{FOREVER}"}, {"LatchkeyLossyFailover"}),
    "requests fail": ({'latchkey_requests_total{status="500"}': f"0+120{FOREVER}"}, {"LatchkeyErrors"}),
    "requests are slow": ({'latchkey_request_seconds_bucket{le="0.1"}': f"0+5800{FOREVER}"}, {"LatchkeySlow"}),
    "callers wait for a connection": (
        {'latchkey_pool_waiting{instance="a",process="api-1"}': f"3+0{FOREVER}"},
        {"LatchkeyPoolExhausted"},
    ),
    "deliveries are late": ({"latchkey_delivery_lag_seconds": f"90+0{FOREVER}"}, {"LatchkeyDeliveryLag"}),
    "the queue grows": ({'latchkey_deliveries_waiting{webhook="w"}': f"900+10{FOREVER}"}, {"LatchkeyQueueGrowing"}),
    "a delivery is old": (
        {'latchkey_oldest_delivery_seconds{webhook="w"}': f"22000+0{FOREVER}"},
        {"LatchkeyOldDelivery"},
    ),
    "a webhook fails": (
        {'latchkey_webhook_failing_seconds{webhook="w"}': f"1900+0{FOREVER}"},
        {"LatchkeyWebhookFailing"},
    ),
    "a webhook is paused": ({'latchkey_webhooks{state="paused"}': f"1+0{FOREVER}"}, {"LatchkeyWebhookPaused"}),
    "leases are lost": ({"latchkey_delivery_leases_lost_total": f"0+12{FOREVER}"}, {"LatchkeyLeasesLost"}),
    "the clock is late": ({"latchkey_clock_lag_seconds": f"200+0{FOREVER}"}, {"LatchkeyClockLag"}),
    "the journal is late": ({"latchkey_store_journal_lag_seconds": f"400+0{FOREVER}"}, {"LatchkeyJournalLag"}),
    "notifications fail": (
        {'latchkey_store_notifications{status="failed"}': f"7+1{FOREVER}"},
        {"LatchkeyJournalFailures"},
    ),
    "customer lists are late": (
        {"latchkey_customer_lists_lag_seconds": f"400+0{FOREVER}"},
        {"LatchkeyCustomerListsLag"},
    ),
    "a key polls too often": ({'latchkey_requests_total{status="429"}': f"0+120{FOREVER}"}, {"LatchkeyRateLimited"}),
    "keys are guessed": ({'latchkey_requests_total{status="401"}': f"0+120{FOREVER}"}, {"LatchkeyUnknownKeys"}),
    "a certificate ends in ten days": (
        {'latchkey_certificate_expires_timestamp_seconds{instance="a"}': f"864000+0{FOREVER}"},
        {"LatchkeyCertificateExpires"},
    ),
}


def test_every_alert_has_a_situation() -> None:
    assert set().union(*(fires for _, fires in SITUATIONS.values())) == {
        rule["alert"] for group in GROUPS for rule in group["rules"]
    }


@pytest.mark.parametrize("situation", SITUATIONS)
def test_an_alert_fires_in_its_situation_and_all_others_are_silent(situation: str, tmp_path: Path) -> None:
    promtool = shutil.which("promtool") or skip("promtool", "Debian's package `prometheus` has it")
    changed, fires = SITUATIONS[situation]
    series = {**HEALTHY, **changed}
    case: dict[str, Any] = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items() if values],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"}) > bool 0',
                "eval_time": f"{HOURS - 1}h",
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(fires)],
            }
        ],
    }
    file = tmp_path / "situation.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": [case]}), encoding="utf-8")
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
