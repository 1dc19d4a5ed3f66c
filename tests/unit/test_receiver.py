"""The receiver that other tests rely on does what it says."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

import receiver
from receiver import Answer, Receiver, in_turn, read_script


def post(url: str, body: bytes = b"x", **headers: str) -> int:
    request = urllib.request.Request(  # noqa: S310 - loopback
        url, body, {name.replace("_", "-"): value for name, value in headers.items()}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_each_event_gets_the_answers_in_turn() -> None:
    with Receiver(in_turn(503, 200)) as server:
        statuses = [post(server.url, webhook_id=event) for event in ("a", "b", "a", "b", "a")]
        assert statuses == [503, 503, 200, 200, 200]
        assert [request.header("webhook-id") for request in server.wait_for(5)] == list("ababa")


def test_a_request_is_written_down_before_it_is_answered(tmp_path: Path) -> None:
    log = tmp_path / "requests"
    with Receiver(Answer(hold=True), log=log) as server:
        asking = subprocess.Popen(
            [sys.executable, "-c", f"import urllib.request as u; u.urlopen({server.url!r}, b'12')"]
        )
        (received,) = server.wait_for(1)
        (line,) = log.read_text().splitlines()
        assert (received.body, json.loads(line)["body"]) == (b"12", "MTI=")
        assert asking.poll() is None
        server.release()
        assert asking.wait(10) == 0


@pytest.mark.parametrize(
    ("end", "sent"),
    [
        ("before_head", b""),
        ("in_head", b"HTTP/1.1 200 OK\r\nCon"),
        ("in_body", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbody"),
    ],
)
def test_an_exchange_breaks_off_where_it_should(end: str, sent: bytes) -> None:
    with Receiver(Answer(body=b"body", end=end)) as server:  # type: ignore[arg-type]
        assert b"".join(exchange(server.port)) == sent
        assert len(server.requests) == 1
    with (
        Receiver(Answer(end="before_head", reset=True)) as server,
        pytest.raises(ConnectionResetError),
    ):
        list(exchange(server.port))


def exchange(port: int) -> Iterator[bytes]:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx")
        yield from iter(lambda: connection.recv(4096), b"")


def test_it_speaks_tls() -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with Receiver(204, tls=context) as server:
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=trusting)
        connection.request("POST", "/", b"x")
        assert connection.getresponse().status == 204
        connection.close()


def test_scripts_are_read_from_words_and_from_json() -> None:
    asked = receiver.Received(0, "POST", "/", (), b"")
    words = read_script("503,drop,200")
    assert [words(asked) for _ in range(4)] == [
        Answer(503),
        Answer(end="before_head"),
        Answer(200),
        Answer(200),
    ]
    fields = read_script('[{"status": 429, "headers": {"Retry-After": "1"}, "body": "no"}]')
    assert fields(asked) == Answer(429, {"Retry-After": "1"}, b"no")


def test_as_a_program_it_takes_a_new_script(tmp_path: Path) -> None:
    command = [sys.executable, receiver.__file__, "--log", str(tmp_path / "log"), "--script", "404"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        url = program.stdout.readline().strip()
        assert post(url) == 404
        assert post(f"{url}/-/script", b"201") == 204
        assert post(url) == 201
        program.kill()
    assert len((tmp_path / "log").read_text().splitlines()) == 2
