"""Each of the shipped alerts fires when it should, and not before, as Prometheus evaluates it."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.interop.broker_process import REPOSITORY

RULES: Final = REPOSITORY / "conf" / "prometheus" / "alerts.yml"
LABELS: Final = '{instance="b", job="artemis_py"%s}'

# Samples a minute apart, as promtool writes them: `a+bxn` goes on from a in n steps of b. Two hours of each.
CASES: Final[dict[str, tuple[dict[tuple[str, str], str], dict[tuple[str, str], str]]]] = {
    "BrokerDown": ({("up", ""): "0x120"}, {("up", ""): "1x120"}),
    "BrokerRestarts": (
        {("artemis_py_start_time_seconds", ""): "1+1x120"},
        {("artemis_py_start_time_seconds", ""): "1x120"},
    ),
    "StoreFailed": ({("artemis_py_store_failed", ""): "1x120"}, {("artemis_py_store_failed", ""): "0x120"}),
    "DiskFull": ({("artemis_py_disk_full", ""): "1x120"}, {("artemis_py_disk_full", ""): "0x120"}),
    "DiskFullSoon": (
        {("artemis_py_disk_usage_ratio", ""): "0.5+0.003x120"},
        {("artemis_py_disk_usage_ratio", ""): "0.5+0.0001x120"},
    ),
    "MemoryHigh": (
        {("artemis_py_memory_bytes", "messages"): "95x120", ("artemis_py_memory_limit_bytes", "messages"): "100x120"},
        {("artemis_py_memory_bytes", "messages"): "80x120", ("artemis_py_memory_limit_bytes", "messages"): "100x120"},
    ),
    "AddressesFull": ({("artemis_py_addresses_full", ""): "1x120"}, {("artemis_py_addresses_full", ""): "0x120"}),
    "MessagesLost": (
        {("artemis_py_messages_discarded_total", "no-queue"): "0+1x120"},
        {("artemis_py_messages_discarded_total", "no-queue"): "7x120"},
    ),
    "MessagesUnrouted": (
        {("artemis_py_messages_unrouted_total", ""): "0+60x120", ("artemis_py_messages_routed_total", ""): "0+60x120"},
        {("artemis_py_messages_unrouted_total", ""): "0+1x120", ("artemis_py_messages_routed_total", ""): "0+60x120"},
    ),
    "DeadLettersGrow": (
        {
            ("artemis_py_messages_dead_lettered_total", "rejected"): "0+5x120",
            ("artemis_py_messages_acknowledged_total", ""): "0+100x120",
        },
        {
            ("artemis_py_messages_dead_lettered_total", "rejected"): "0+5x120",
            ("artemis_py_messages_acknowledged_total", ""): "0+10000x120",
        },
    ),
    "NothingIsConsumed": (
        {
            ("artemis_py_queue_messages", "waiting"): "9x120",
            ("artemis_py_consumers", "AMQP"): "1x120",
            ("artemis_py_messages_acknowledged_total", ""): "5x120",
        },
        {
            ("artemis_py_queue_messages", "waiting"): "9x120",
            ("artemis_py_consumers", "AMQP"): "1x120",
            ("artemis_py_messages_acknowledged_total", ""): "5+1x120",
        },
    ),
    "QueuesWithoutConsumers": (
        {("artemis_py_queues_idle_with_messages", ""): "1x120"},
        {("artemis_py_queues_idle_with_messages", ""): "0x120"},
    ),
    "LoopBlocked": (
        {
            ("artemis_py_loop_lag_seconds_bucket", "0.1"): "0+30x120",
            ("artemis_py_loop_lag_seconds_bucket", "2.5"): "0+60x120",
            ("artemis_py_loop_lag_seconds_bucket", "+Inf"): "0+60x120",
        },
        {
            ("artemis_py_loop_lag_seconds_bucket", "0.1"): "0+60x120",
            ("artemis_py_loop_lag_seconds_bucket", "2.5"): "0+60x120",
            ("artemis_py_loop_lag_seconds_bucket", "+Inf"): "0+60x120",
        },
    ),
    "ConnectionChurn": (
        {("artemis_py_connections_opened_total", ""): "0+60x120", ("artemis_py_connections", ""): "3x120"},
        {("artemis_py_connections_opened_total", ""): "0+1x120", ("artemis_py_connections", ""): "3x120"},
    ),
    "LoginFailures": (
        {("artemis_py_logins_total", "failure"): "0+120x120"},
        {("artemis_py_logins_total", "failure"): "0+1x120", ("artemis_py_logins_total", "success"): "0+120x120"},
    ),
    "DescriptorsLow": (
        {("process_open_fds", ""): "90x120", ("process_max_fds", ""): "100x120"},
        {("process_open_fds", ""): "50x120", ("process_max_fds", ""): "100x120"},
    ),
    "PeerDown": (
        {("artemis_py_mesh_members", "away"): "1x120", ("artemis_py_mesh_members", "up"): "1x120"},
        {("artemis_py_mesh_members", "away"): "0x120", ("artemis_py_mesh_members", "up"): "2x120"},
    ),
    "ForwardsStuck": (
        {("artemis_py_mesh_messages_waiting", ""): "1+5x120"},
        {("artemis_py_mesh_messages_waiting", ""): "500-4x120"},
    ),
    "MessagesStranded": (
        {("artemis_py_mesh_messages_stranded", ""): "3x120"},
        {("artemis_py_mesh_messages_stranded", ""): "3 0 3 3 0 3 0x120"},
    ),
}
"""Metrics with the value of their own label, in which the alert fires, and others in which it does not."""

OWN_LABEL: Final = {
    "artemis_py_memory_bytes": "part",
    "artemis_py_memory_limit_bytes": "part",
    "artemis_py_messages_discarded_total": "cause",
    "artemis_py_messages_dead_lettered_total": "cause",
    "artemis_py_queue_messages": "state",
    "artemis_py_consumers": "protocol",
    "artemis_py_loop_lag_seconds_bucket": "le",
    "artemis_py_logins_total": "result",
    "artemis_py_mesh_members": "state",
}

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (apt install prometheus)"
)


def series(metrics: dict[tuple[str, str], str]) -> list[dict[str, str]]:
    """What promtool takes."""
    found = []
    for (name, own), values in metrics.items():
        label = f', {OWN_LABEL[name]}="{own}"' if own else ""
        found.append({"series": name + LABELS % label, "values": values})
    return found


def test_there_is_a_case_for_each_alert() -> None:
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]

    assert [rule["alert"] for group in rules for rule in group["rules"]] == list(CASES)


def test_each_alert_fires_when_it_should(tmp_path: Path) -> None:
    tests = []
    for name, cases in CASES.items():
        for metrics, is_firing in zip(cases, (True, False), strict=True):
            firing = f'count(ALERTS{{alertname="{name}", alertstate="firing"}})'
            expected = [{"labels": "{}", "value": 1}] if is_firing else []
            check = {"expr": firing, "eval_time": "2h", "exp_samples": expected}
            tests.append({"interval": "1m", "name": name, "input_series": series(metrics), "promql_expr_test": [check]})
    file = tmp_path / "alerts_test.yml"
    content = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}
    file.write_text(json.dumps(content), encoding="utf-8")

    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
