"""One delivery's page: its tabs, its attempts, and its payload for those who may see it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from flask.testing import FlaskClient

from dashboard import curl
from dashboard.content import read_content
from stage import Stage
from trails import taken_in
from written import write


@pytest.fixture
def delivery(stage: Stage) -> UUID:
    (found,) = stage.deliveries(stage.subscription(headers={"X-Key": "hidden-value"}).id)
    stage.send(found, 503)
    return found


@pytest.mark.parametrize(
    ("query", "field"),
    [("tab=x", "tab"), ("scale=log", "scale"), ("attempt=-1", "attempt"), ("before=x", "before")],
)
def test_a_bad_parameter_is_named(
    viewer: FlaskClient, delivery: UUID, query: str, field: str
) -> None:
    answer = viewer.get(f"/deliveries/{delivery}?{query}")
    assert answer.status_code == 422
    assert f'data-field="{field}"' in answer.text


def test_the_page_says_why_and_what_next(viewer: FlaskClient, delivery: UUID) -> None:
    page = viewer.get(f"/deliveries/{delivery}").text
    assert "Its last attempt ended with 503, which is retried." in page
    assert "Attempt 2 is due at" in page
    assert 'data-seg="sleeping"' in page


def test_page_api_and_file_tell_the_same_segments(
    viewer: FlaskClient, stage: Stage, delivery: UUID
) -> None:
    stage.send(delivery, 200, "worker-b")
    found = viewer.get(f"/deliveries/{delivery}/timeline.json").json
    assert found is not None
    page = viewer.get(f"/deliveries/{delivery}").text
    for segment in found["segments"]:
        assert (
            f'data-seg="{segment["kind"]}" data-start-ms="{segment["start_ms"]}"'
            f' data-ms="{segment["duration_ms"]}"'
        ) in page
    rows = viewer.get(f"/deliveries/{delivery}/trail.csv").text.splitlines()
    assert len(rows) == len(found["rows"]) + 1


def test_an_attempt_shows_its_request_without_secrets(
    operator: FlaskClient, delivery: UUID
) -> None:
    page = operator.get(f"/deliveries/{delivery}/attempts/1").text
    assert "Fencepost-Attempt: 1" in page
    assert "webhook-signature: ••••" in page
    assert "X-Key: ••••" in page
    assert "hidden-value" not in page
    assert operator.get(f"/deliveries/{delivery}/attempts/2").status_code == 404
    assert operator.get(f"/deliveries/{delivery}/attempts/{'9' * 30}").status_code == 404


def test_a_viewer_sees_no_answer_and_no_payload(viewer: FlaskClient, delivery: UUID) -> None:
    assert "shown to operators" in viewer.get(f"/deliveries/{delivery}/attempts/1").text
    page = viewer.get(f"/deliveries/{delivery}?tab=payload").text
    assert "Operators can look at it" in page
    assert "Reveal" not in page


def test_a_payload_that_cannot_be_opened_says_so(
    operator: FlaskClient, post: Callable[..., Any], stage: Stage, delivery: UUID
) -> None:
    answer = post(operator, f"/deliveries/{delivery}/payload/reveal")
    assert answer.status_code == 409
    assert "cannot be opened" in answer.text
    count = "SELECT count(*) FROM webhook_operator_actions WHERE action = 'payload.reveal'"
    assert stage.value(count) == 0


def test_a_long_trail_comes_in_parts(viewer: FlaskClient, stage: Stage) -> None:
    trail = taken_in()
    for token in range(1, 401):
        start = token * 1_000
        trail.add(start, "LEASED", "a", token).add(start, "RELEASED", "a", token, reason="draining")
        trail.add(start, "RETRIED", "a", token, delay_ms=0)
    begins = stage.value("SELECT fencepost_now() - interval '1 day'")
    found = write(stage.conn, stage.subscription().id, trail, begins=begins)
    page = viewer.get(f"/deliveries/{found}").text
    assert "Rows 703 to 1,202 of 1,202" in page
    assert "more stages" in page
    assert "more stages" not in viewer.get(f"/deliveries/{found}?all=1").text
    assert "Rows 203 to 703 of" in viewer.get(f"/deliveries/{found}?tab=audit&before=703").text


@pytest.mark.parametrize("scheme", ["standard", "stripe", "prefixed"])
@pytest.mark.parametrize("body", ["plain", 'it\'s "$(id)" `id`\n\\ ünï', ""])
def test_a_command_is_data_to_the_shell(scheme: str, body: str) -> None:
    command = curl.send_by_hand(
        url="https://e.test/'$(id)", scheme=scheme, signature_header="X-Sig", message_id="m'1",
        headers=[("X-Quote", "it's $(id)")], body=body, file_name="f.json",
    )  # fmt: skip
    script = 'curl() { cat; printf "|%s" "$@"; }; WEBHOOK_SECRET=whsec_c2VjcmV0\n' + command
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    sent, *arguments = ran.stdout.split("|")
    assert sent == body
    assert "https://e.test/'$(id)" in arguments
    assert "X-Quote: it's $(id)" in arguments
    assert "uid=" not in ran.stdout
    assert "whsec_c2VjcmV0" not in command


def test_a_large_body_comes_from_a_file() -> None:
    command = curl.send_by_hand(
        url="https://e.test/***", scheme="standard", signature_header="X-Sig", message_id="m",
        headers=[], body="x" * 9_000, file_name="event-1.json",
    )  # fmt: skip
    assert "BODY='event-1.json'" in command
    assert "# complete what is masked" in command


def test_bytes_are_shown_as_they_are() -> None:
    assert read_content(b'{"a":1}').pretty == '{\n  "a": 1\n}'
    assert read_content(b'{"a":12345678901234567890}').pretty is not None
    assert read_content(b'{"a":1.0e5}').pretty is None, "it would come back as 100000.0"
    assert read_content(b'{"a":1,"a":2}').pretty is None
    binary = read_content(b"\x00\xff" * 3_000)
    assert binary.text is None
    assert binary.is_cut
    assert binary.hex is not None
    assert binary.hex.startswith("00000000  00 ff")
    assert not read_content(b"a\r\nb").fits_a_command
