"""Ten extraction tasks on log lines and machine messages."""

from __future__ import annotations

from typing import Final

from benchmarks.quality.task import (
    Task,
    array,
    boolean,
    choice,
    clock_time,
    closed_object,
    date,
    integer,
    nullable,
    number,
    text,
    utc_time,
)

__all__ = ["MACHINE_MESSAGES"]

MACHINE_MESSAGES: Final[list[Task]] = [
    Task(
        name="nearly_full_volume",
        text=(
            "2026-01-17T03:12:44Z host=stor-07 unit=backup.service level=warning "
            'msg="volume /srv/archive is 93% full (limit 90%), 42 GB free of 600 GB; previous warning at 91% on '
            '2026-01-15; next check in 15 min"'
        ),
        schema=closed_object(
            event_date=date(),
            event_time=utc_time(),
            severity=choice("debug", "info", "warning", "error", "critical"),
            host_name=text(24),
            volume_path=text(),
            used_percent=integer(0, 100),
            free_gigabytes=integer(0, 99999),
        ),
        answer={
            "event_date": "2026-01-17",
            "event_time": ("03:12:44Z", "03:12:44+00:00"),
            "severity": "warning",
            "host_name": "stor-07",
            "volume_path": "/srv/archive",
            "used_percent": 93,
            "free_gigabytes": 42,
        },
    ),
    Task(
        name="ssh_password_guessing",
        text=(
            "Mar 09 22:41:07 gate2 sshd[4127]: Failed password for invalid user oracle from 203.0.113.58 port 50622\n"
            "Mar 09 22:41:11 gate2 sshd[4127]: message repeated 4 times: [ Failed password for invalid user oracle "
            "from 203.0.113.58 port 50622 ]\n"
            "Mar 09 22:41:12 gate2 fail2ban[811]: Ban 203.0.113.58 for 3600 seconds"
        ),
        schema=closed_object(
            server_name=text(24),
            attacked_user_name=text(24),
            user_exists_on_server=boolean(),
            source_address={"type": "string", "format": "ipv4"},
            source_port=integer(0, 65535),
            login_succeeded=boolean(),
            ban_in_seconds=integer(0, 999999),
        ),
        answer={
            "server_name": "gate2",
            "attacked_user_name": "oracle",
            "user_exists_on_server": False,
            "source_address": "203.0.113.58",
            "source_port": 50622,
            "login_succeeded": False,
            "ban_in_seconds": 3600,
        },
    ),
    Task(
        name="gateway_request_timeout",
        text=(
            "WARN [api-gateway] request_id=7f3c-91 method=PUT path=/v2/customers/8841/address status=504 "
            "duration_ms=30012 upstream=crm-core retries=2 client=198.51.100.20 - upstream did not respond within "
            "30000 ms; circuit breaker for crm-core is now open"
        ),
        schema=closed_object(
            request_id=text(16),
            http_method=choice("GET", "POST", "PUT", "PATCH", "DELETE"),
            status_code=integer(100, 599),
            duration_in_milliseconds=integer(0, 999999),
            upstream_service=text(24),
            retry_count=integer(0, 99),
            kind_of_failure=choice("timeout", "connection_refused", "bad_request", "not_authorized"),
            circuit_breaker_state=choice("closed", "open", "half_open"),
        ),
        answer={
            "request_id": "7f3c-91",
            "http_method": "PUT",
            "status_code": 504,
            "duration_in_milliseconds": 30012,
            "upstream_service": "crm-core",
            "retry_count": 2,
            "kind_of_failure": "timeout",
            "circuit_breaker_state": "open",
        },
    ),
    Task(
        name="deployment_rolled_back",
        text=(
            "[2026-05-28 16:02] deploy #1184 of shop-frontend v3.9.1 to live cluster started by n.ibrahim\n"
            "[2026-05-28 16:06] health check failed on 3 of 8 instances\n"
            "[2026-05-28 16:07] rolling back to v3.9.0\n"
            "[2026-05-28 16:09] rollback complete, all 8 instances healthy"
        ),
        schema=closed_object(
            deployment_number=integer(0, 99999),
            service_name=text(24),
            started_by=text(24),
            attempted_version=text(12),
            running_version=text(12, "the version that runs after the last line"),
            target_environment=choice("development", "staging", "production"),
            failed_instances=integer(0, 99, "at the health check"),
            outcome=choice("succeeded", "rolled_back", "in_progress"),
        ),
        answer={
            "deployment_number": 1184,
            "service_name": "shop-frontend",
            "started_by": "n.ibrahim",
            "attempted_version": ("v3.9.1", "3.9.1"),
            "running_version": ("v3.9.0", "3.9.0"),
            "target_environment": "production",
            "failed_instances": 3,
            "outcome": "rolled_back",
        },
    ),
    Task(
        name="cold_chain_alarm",
        text=(
            "ALARM unit CT-19 truck WX-4471: cargo temperature -11.4 C at 02:50:00 UTC on 7 July 2025, limit -15.0 C. "
            "Temperature was -18.2 C at 01:00:00 UTC. Door sensor: closed. Compressor: fault code E07. Load: frozen "
            "fish, 22 pallets. Driver informed: no. Position 54.32 N, 10.13 E."
        ),
        schema=closed_object(
            sensor_unit=text(16),
            truck_id=text(16),
            alarm_temperature=number(-60, 60, "the temperature that raised the alarm"),
            temperature_limit=number(-60, 60),
            alarm_time=utc_time("the time of the measurement that raised the alarm"),
            compressor_fault_code=nullable(text(8)),
            door_is_open=boolean(),
            driver_was_informed=boolean(),
        ),
        answer={
            "sensor_unit": "CT-19",
            "truck_id": "WX-4471",
            "alarm_temperature": -11.4,
            "temperature_limit": -15,
            "alarm_time": ("02:50:00Z", "02:50:00+00:00"),
            "compressor_fault_code": "E07",
            "door_is_open": False,
            "driver_was_informed": False,
        },
    ),
    Task(
        name="backup_with_skipped_files",
        text=(
            "Nightly job BK-0412 finished, but not without warnings. Started 01:30, ended 04:05. Files copied: "
            "182,440. Skipped: 17 (locked). Size: 212.6 GB. Target: s3-cold. Oldest backup removed: BK-0382 of 12 "
            "February. Verification: passed. Next run: BK-0413 tomorrow at 01:30."
        ),
        schema=closed_object(
            job_id=text(16),
            result_of_job=choice("success", "success_with_warnings", "failure"),
            end_time=clock_time(),
            copied_files=integer(0, 9999999),
            skipped_files=integer(0, 9999999),
            size_in_gigabytes=number(0, 99999),
            removed_backup_id=nullable(text(16)),
            verification_passed=boolean(),
        ),
        answer={
            "job_id": "BK-0412",
            "result_of_job": "success_with_warnings",
            "end_time": "04:05",
            "copied_files": 182440,
            "skipped_files": 17,
            "size_in_gigabytes": 212.6,
            "removed_backup_id": "BK-0382",
            "verification_passed": True,
        },
    ),
    Task(
        name="printer_status_page",
        text=(
            "Printer MFP-3F-02 (third floor, room 318). Status: ready. Pages printed since installation: 48,913, of "
            "these 6,120 in colour. Toner: black 64 %, cyan 8 %, magenta 31 %, yellow 27 %. Cyan is low, order part "
            "TN-248C. Tray 2 is empty. Last service: 11 November 2025. No paper jam."
        ),
        schema=closed_object(
            printer_name=text(16),
            room_number=integer(0, 9999),
            total_pages=integer(0, 9999999),
            colour_pages=integer(0, 9999999),
            colours_low_on_toner=array(choice("black", "cyan", "magenta", "yellow")),
            part_to_order=text(16),
            empty_trays=array(integer(1, 9)),
            has_paper_jam=boolean(),
        ),
        answer={
            "printer_name": "MFP-3F-02",
            "room_number": 318,
            "total_pages": 48913,
            "colour_pages": 6120,
            "colours_low_on_toner": ["cyan"],
            "part_to_order": "TN-248C",
            "empty_trays": [2],
            "has_paper_jam": False,
        },
    ),
    Task(
        name="card_declined_then_approved",
        text=(
            'ts=2026-02-11T09:15:02Z txn=PX-99812 merchant="Kiosk Amaro" amount=18.40 EUR card=****7726 '
            "result=DECLINED reason=51 (insufficient funds)\n"
            'ts=2026-02-11T09:15:49Z txn=PX-99813 merchant="Kiosk Amaro" amount=18.40 EUR card=****0158 '
            "result=APPROVED auth=620044\n"
            "Batch 77 is still open and closes at 23:00."
        ),
        schema=closed_object(
            merchant_name=text(24),
            amount=number(0, 9999),
            declined_payment=closed_object(
                transaction_id=text(12),
                last_card_digits={"type": "string", "pattern": "^[0-9]{4}$"},
                reason=choice("not_enough_money", "card_expired", "card_stolen", "wrong_pin"),
            ),
            approved_payment=closed_object(
                transaction_id=text(12),
                last_card_digits={"type": "string", "pattern": "^[0-9]{4}$"},
                approval_time=utc_time(),
            ),
            batch_is_closed=boolean(),
        ),
        answer={
            "merchant_name": "Kiosk Amaro",
            "amount": 18.4,
            "declined_payment": {
                "transaction_id": "PX-99812",
                "last_card_digits": "7726",
                "reason": "not_enough_money",
            },
            "approved_payment": {
                "transaction_id": "PX-99813",
                "last_card_digits": "0158",
                "approval_time": ("09:15:49Z", "09:15:49+00:00"),
            },
            "batch_is_closed": False,
        },
    ),
    Task(
        name="failed_build_pipeline",
        text=(
            "Pipeline 20931 on branch feature/price-rules (commit 4be19d0 by Yuki Tanaka) failed after 11 min 20 s. "
            "Stage lint: ok. Stage unit-tests: 2 of 1,406 tests failed: test_rounding_of_cents, "
            "test_discount_above_limit. Stage package: skipped. The last good run on this branch was 20917."
        ),
        schema=closed_object(
            pipeline_number=integer(0, 999999),
            branch_name=text(),
            commit_author=text(),
            failed_stage=choice("lint", "unit_tests", "package"),
            failed_tests=array(text()),
            total_tests=integer(0, 99999),
            package_stage=choice("passed", "failed", "skipped"),
            last_good_pipeline_number=integer(0, 999999),
        ),
        answer={
            "pipeline_number": 20931,
            "branch_name": "feature/price-rules",
            "commit_author": "Yuki Tanaka",
            "failed_stage": "unit_tests",
            "failed_tests": ["test_rounding_of_cents", "test_discount_above_limit"],
            "total_tests": 1406,
            "package_stage": "skipped",
            "last_good_pipeline_number": 20917,
        },
    ),
    Task(
        name="milling_machine_report",
        text=(
            "Mill M4, operating hours 12,480. Spindle bearing: vibration 7.1 mm/s, warning from 4.5, stop from 9.0. "
            "Coolant level fine. Tool 12 worn, 3 of 500 cycles left. Program 0815 paused by operator at 14:22 after "
            "part 37 of 60. Service contract no. 55-210; ask for Mr Lindqvist."
        ),
        schema=closed_object(
            operating_hours=integer(0, 999999),
            vibration_in_mm_per_s=number(0, 99),
            vibration_state=choice("normal", "warning", "stop", about="according to the limits in the message"),
            worn_tool_number=nullable(integer(0, 99)),
            finished_parts=integer(0, 999, "parts made before the pause"),
            pause_time=clock_time(),
            service_contact_person=text(24),
            error_code=nullable(text(8)),
        ),
        answer={
            "operating_hours": 12480,
            "vibration_in_mm_per_s": 7.1,
            "vibration_state": "warning",
            "worn_tool_number": 12,
            "finished_parts": 37,
            "pause_time": "14:22",
            "service_contact_person": ("Mr Lindqvist", "Lindqvist", "Mr. Lindqvist"),
            "error_code": None,
        },
    ),
]
