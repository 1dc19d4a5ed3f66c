"""What a reply means."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.model import ErrorClass, Reply
from fencepost.outcomes import Outcome, Verdict, classify, clean_bytes, clean_text

DELIVERED, RETRY, REJECT = Verdict.DELIVERED, Verdict.RETRY, Verdict.REJECT


def judged(status: int) -> tuple[Verdict, ErrorClass | None]:
    outcome = classify(Reply(status))
    return outcome.verdict, outcome.error


@pytest.mark.parametrize("status", [200, 201, 202, 204, 205, 206, 250, 299])
def test_every_2xx_is_delivered(status: int) -> None:
    assert classify(Reply(status)) == Outcome(DELIVERED, None, None, status)


def test_a_2xx_is_delivered_whatever_its_body_did() -> None:
    reply = Reply(200, message="the body was cut off", body=b"error")
    assert classify(reply) == Outcome(DELIVERED, None, "the body was cut off", 200)


@pytest.mark.parametrize("status", [408, 425, 429])
def test_three_4xx_are_tried_again(status: int) -> None:
    assert judged(status) == (RETRY, ErrorClass.HTTP_4XX)


@pytest.mark.parametrize(
    "status", [400, 401, 403, 404, 405, 407, 409, 413, 415, 422, 426, 428, 499]
)
def test_other_4xx_are_not(status: int) -> None:
    assert judged(status) == (REJECT, ErrorClass.HTTP_4XX)


@pytest.mark.parametrize("status", [500, 501, 502, 503, 504, 520, 599])
def test_every_5xx_is_tried_again(status: int) -> None:
    assert judged(status) == (RETRY, ErrorClass.HTTP_5XX)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308, 399])
def test_no_3xx_is_tried_again(status: int) -> None:
    assert judged(status) == (REJECT, ErrorClass.REDIRECT)


@pytest.mark.parametrize("status", [100, 101, 103, 199, 600, 999])
def test_what_is_no_final_status_of_http_is_a_bad_response(status: int) -> None:
    assert judged(status) == (RETRY, ErrorClass.BAD_RESPONSE)


@pytest.mark.parametrize(
    "error", [error for error in ErrorClass if not error.startswith("invalid")]
)
def test_failures_without_a_status_are_tried_again(error: ErrorClass) -> None:
    assert classify(Reply(None, error, "why")) == Outcome(RETRY, error, "why", None)


@pytest.mark.parametrize("error", [ErrorClass.INVALID_URL, ErrorClass.INVALID_HEADER])
def test_what_cannot_be_sent_as_written_is_not(error: ErrorClass) -> None:
    assert classify(Reply(None, error, "why")) == Outcome(REJECT, error, "why", None)


def test_a_subscription_overrides_the_lists() -> None:
    assert classify(Reply(404), retry_statuses=[404]).verdict is RETRY
    assert classify(Reply(302), retry_statuses=[302]).verdict is RETRY
    assert classify(Reply(500), no_retry_statuses=[500]).verdict is REJECT
    assert classify(Reply(999), no_retry_statuses=[999]).verdict is REJECT
    assert classify(Reply(404), retry_statuses=[404], no_retry_statuses=[404]).verdict is REJECT
    assert classify(Reply(200), no_retry_statuses=[200]).verdict is DELIVERED


def test_410_pauses_unless_the_subscription_wants_it_tried_again() -> None:
    gone = classify(Reply(410))
    assert (gone.verdict, gone.pauses) == (REJECT, True)
    kept = classify(Reply(410), retry_statuses=[410])
    assert (kept.verdict, kept.pauses) == (RETRY, False)
    assert not classify(Reply(404)).pauses
    assert not classify(Reply(409)).pauses
    assert not classify(Reply(411)).pauses


def test_retry_after_counts_on_429_and_503_only() -> None:
    headers = (("x", "y"), ("RETRY-after", "120"))
    assert classify(Reply(429, headers=headers)).retry_after_raw == "120"
    assert classify(Reply(503, headers=headers)).retry_after_raw == "120"
    for status in (200, 302, 404, 500, 502, 504):
        assert classify(Reply(status, headers=headers)).retry_after_raw is None
    assert classify(Reply(429)).retry_after_raw is None


def test_two_retry_after_headers_are_joined_and_so_unreadable() -> None:
    headers = (("Retry-After", "5"), ("retry-after", "500"))
    assert classify(Reply(429, headers=headers)).retry_after_raw == "5, 500"


def test_a_failure_says_its_status_and_where_a_redirect_led() -> None:
    assert classify(Reply(503)).message == "503 Service Unavailable"
    assert classify(Reply(599)).message == "599"
    redirect = classify(Reply(302, headers=(("Location", "https://other.example/"),)))
    assert redirect.message == "302 Found to https://other.example/, not followed"
    assert classify(Reply(500, message="the body was cut off")).message == (
        "500 Internal Server Error; the body was cut off"
    )


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("größe 日本", "größe 日本"),
        ("a\x00b", r"a\x00b"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\ud800", r"\ud800"),
        ("\u202eevil", r"\u202eevil"),
        ("\x80\xa0", r"\x80\xa0"),
    ],
)
def test_what_does_not_print_is_shown_escaped(text: str, cleaned: str) -> None:
    assert clean_text(text) == cleaned


def test_long_text_is_cut_and_says_so() -> None:
    assert clean_text("a" * 500) == "a" * 500
    assert clean_text("a" * 501) == "a" * 499 + "…"
    assert clean_text("\x00" * 10, limit=9) == r"\x00\x00…"


def test_bytes_are_shown_without_guessing_their_encoding() -> None:
    assert clean_bytes(b"ok\x00\xff\xc3\xa9") == r"ok\x00\xff\xc3\xa9"


@given(st.text(), st.integers(2, 600))
@example("\ud800\x00" * 400, 500)
def test_clean_text_can_be_stored(text: str, limit: int) -> None:
    cleaned = clean_text(text, limit=limit)
    assert cleaned.isprintable()
    assert len(cleaned) <= limit
    cleaned.encode()
