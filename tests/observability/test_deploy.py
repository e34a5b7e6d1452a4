"""The alert rules and the Grafana dashboard use metrics and labels that a running service has, and each alert has a
paragraph that says what to do."""

import json
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.databases import DemoShelf
from tests.http.receiving import delivering, posting
from tests.machine import skip

ROOT = Path(__file__).parents[2]
RULES = yaml.safe_load((ROOT / "deploy/watching/alerts.yaml").read_text(encoding="utf-8"))
DASHBOARD = json.loads((ROOT / "deploy/watching/dashboard.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs/watching.md").read_text(encoding="utf-8")
ALERTS: list[dict[str, Any]] = [rule for group in RULES["groups"] for rule in group["rules"]]
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = {
    **{rule["alert"]: rule["expr"] for rule in ALERTS},
    **{f"{panel['title']} {one['refId']}": one["expr"] for panel in PANELS for one in panel["targets"]},
}
# Prometheus adds them to everything, and has a metric of its own for each target.
ADDED = {"instance", "job"}
OWN = "up"
# Labels that always have all their values.
FIXED = {"state", "outcome", "kind"}
# A metric and its labels: a name that is no function.
METRIC = re.compile(r"\b(?!and\b|offset\b)([a-z_]+)\b(?!\s*\()(?:\{(.*?)\})?")
GROUPED = re.compile(r"\bby \((.*?)\)")


def _grouped(expression: str) -> set[str]:
    return {label for labels in GROUPED.findall(expression) for label in labels.split(", ")}


def _metrics(expression: str) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Each metric with its labels, how they are compared and with what."""
    found = METRIC.findall(re.sub(r"\[.*?\]", "", GROUPED.sub("", expression)))
    return [(name, re.findall(r'(\w+)(=~|!~|!=|=)"(.*?)"', labels)) for name, labels in found]


def test_every_expression_is_promql(tmp_path: Path) -> None:
    valid = [text.replace("$__rate_interval", "5m") for text in EXPRESSIONS.values()]
    rules = [{"record": f"expression_{number}", "expr": text} for number, text in enumerate(valid)]
    file = tmp_path / "expressions.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}), encoding="utf-8")
    promtool = shutil.which("promtool") or skip("promtool", "Debian's package `prometheus` has it")
    checked = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


async def test_every_expression_uses_metrics_and_labels_that_exist(demo_shelf: DemoShelf, short_folder: Path) -> None:
    async with (
        demo_shelf.shelf.lend() as database,
        posting(database, short_folder, demo=demo_shelf.demo) as post,
        delivering(post),
    ):
        good, bad = await post.hook(), await post.hook("/status/500")
        action = {"action": "purchase", "app_user_id": "ada", "product_id": "pro_monthly"}
        path = f"/v2/projects/{post.project_id}/test_store/actions"
        assert (await post.client.post(path, action)).status == 200
        await post.settled(good["id"], "delivered")
        await post.settled(bad["id"], "waiting", attempts=1)
        front: Any = post.client.app
        text = (await front.watch.text()).decode()
    shown: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            shown[sample.name].update({})
            for label, value in sample.labels.items():
                shown[sample.name][label].add(value)
    # This database is no cluster.
    shown["latchkey_database_node_up"]["node"].add("localhost:5432")
    for name, text in EXPRESSIONS.items():
        metrics = _metrics(text)
        assert metrics, name
        for metric, labels in metrics:
            if metric == OWN:
                assert {label for label, _, _ in labels} <= ADDED
                continue
            assert metric in shown, f"{name}: there is no metric {metric}"
            for label, sign, value in labels:
                assert label in shown[metric], f"{name}: {metric} has no label {label}"
                if label in FIXED or metric == "latchkey_store_notifications":
                    assert sign == "=", name
                    assert value in shown[metric][label], f"{name}: {label} is never {value}"
        known = {label for metric, _ in metrics for label in shown[metric]}
        assert _grouped(text) <= known | ADDED, f"{name} groups by labels that are not there"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_every_alert_says_what_is_wrong_and_where_to_read_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert alert["annotations"]["summary"].endswith(".")
    assert alert["annotations"]["runbook"] == f"docs/watching.md#{alert['alert'].lower()}"
    paragraph = re.search(rf"^#### {alert['alert']}\n(.+?)(?=\n#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert paragraph is not None, "docs/watching.md has no such heading"
    assert len(paragraph[1].split()) > 15
    # Labels in the text are kept by the expression.
    grouped = _grouped(alert["expr"]) | (ADDED if alert["expr"].startswith(OWN) else set())
    assert set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"])) <= grouped


def test_the_page_has_no_runbook_for_an_alert_that_is_gone() -> None:
    assert set(re.findall(r"^#### (Latchkey\w+)$", PAGE, re.MULTILINE)) == {alert["alert"] for alert in ALERTS}


def test_the_dashboards_panels_do_not_overlap_and_use_the_chosen_source() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    places = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in places, panel["title"]
                assert x < 24
                places.add((x, y))
    for panel in PANELS:
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert labels <= _grouped(target["expr"]), panel["title"]
