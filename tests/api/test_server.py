"""The HTTP door behind its real server: what only a socket can do to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from api_client import Role
from dashboard.api.bodies import SILENCE_SECONDS
from waiting import eventually

LIMIT = 262_144


@dataclass(frozen=True, slots=True)
class Server:
    """A running dashboard, spoken to in bytes."""

    port: int
    token: str

    def open(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def head(self, *lines: str, path: str = "/api/v1/events/a.b") -> bytes:
        """Write a request line and headers, with a valid token."""
        return "\r\n".join(
            [
                f"POST {path} HTTP/1.1",
                f"Host: 127.0.0.1:{self.port}",
                f"Authorization: Bearer {self.token}",
                *lines,
                "",
                "",
            ]
        ).encode()

    def send(self, data: bytes) -> tuple[HTTPResponse, Any]:
        """Send bytes on a new connection; give the answer, and its document where it is JSON."""
        with closing(self.open()) as connection:
            connection.sendall(data)
            return read(connection)

    def publish(self, body: bytes, *headers: str) -> tuple[HTTPResponse, Any]:
        length = f"Content-Length: {len(body)}"
        return self.send(self.head("Content-Type: application/json", length, *headers) + body)


def read(connection: socket.socket) -> tuple[HTTPResponse, Any]:
    response = HTTPResponse(connection)
    response.begin()
    body = response.read()
    is_json = "json" in response.headers.get("Content-Type", "")
    return response, json.loads(body) if is_json else body


def is_closed(connection: socket.socket) -> bool:
    """Tell whether the server has ended the connection; waits for it."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.fixture(scope="module")
def web(
    environment: dict[str, str], role_tokens: Mapping[Role, str], tmp_path_factory: Any
) -> Iterator[Server]:
    """The dashboard as `fencepost dashboard` runs it."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    log: Path = tmp_path_factory.mktemp("web") / "log"
    env = {**os.environ, **environment, "FENCEPOST_BIND": f"127.0.0.1:{port}"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "dashboard"], env=env, stdout=out, stderr=out
        )
        server = Server(port, role_tokens["operator"])

        def answers() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                server.open().close()
            except ConnectionRefusedError:
                return False
            return True

        eventually(answers)
        yield server
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert "api.defect" not in log.read_text()
    assert "Traceback" not in log.read_text()


def test_a_client_that_says_nothing_is_given_up_and_others_are_served(
    web: Server, count_events: Callable[[], int]
) -> None:
    with closing(web.open()) as silent:
        silent.sendall(web.head("Content-Type: application/json", "Content-Length: 9") + b'{"a"')
        response, _ = web.publish(b"{}")
        assert response.status == 202
        before = count_events()
        silent.settimeout(SILENCE_SECONDS + 20)
        response, problem = read(silent)
        assert (response.status, problem["code"]) == (408, "request_timeout")
        assert is_closed(silent)
    assert count_events() == before


def test_a_chunked_body_is_taken_in_byte_for_byte(web: Server, owner: Connection[Any]) -> None:
    head = web.head("Content-Type: text/plain", "Transfer-Encoding: chunked")
    response, answer = web.send(head + b"3\r\nabc\r\n2;x=y\r\n\r\n\r\n0\r\n\r\n")
    assert response.status == 202
    found = owner.execute(
        "SELECT payload_bytes FROM webhook_events WHERE id = %s", (answer["id"],)
    ).fetchone()
    assert found == (5,)


def test_a_chunked_body_over_the_limit_ends_the_connection(
    web: Server, count_events: Callable[[], int]
) -> None:
    before = count_events()
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    with closing(web.open()) as connection:
        connection.sendall(web.head("Content-Type: text/plain", "Transfer-Encoding: chunked"))
        for _ in range(LIMIT // 65_536):
            connection.sendall(chunk)
        connection.sendall(chunk)
        response, problem = read(connection)
        assert (response.status, problem["code"]) == (413, "too_large")
        connection.settimeout(30)
        assert is_closed(connection)
    assert count_events() == before


def test_a_body_that_announces_too_much_is_refused_before_it_comes(web: Server) -> None:
    head = web.head("Content-Type: text/plain", f"Content-Length: {LIMIT + 1}")
    response, problem = web.send(head)
    assert (response.status, problem["code"]) == (413, "too_large")


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: 2", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Content-Length: 2"],
        ["Content-Length: 2", "Content-Length: 3"],
        ["Content-Length: -1"],
        ["Content-Length: 2x"],
        ["Transfer-Encoding: chunked, identity"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
    ],
)
def test_a_body_of_two_lengths_is_refused(
    web: Server, count_events: Callable[[], int], lines: list[str]
) -> None:
    before = count_events()
    response, _ = web.send(web.head(*lines) + b"2\r\n{}\r\n0\r\n\r\n")
    assert response.status in {400, 501}
    assert count_events() == before


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        (["Content-Length: 9"], b'{"a"'),
        (["Transfer-Encoding: chunked"], b'4\r\n"ab"\r\n'),
        (["Transfer-Encoding: chunked"], b'9\r\n"ab"'),
        (["Transfer-Encoding: chunked"], b'zz\r\n"ab"\r\n0\r\n\r\n'),
        (["Transfer-Encoding: chunked"], b'4;"\r\n"ab"\r\n0\r\n\r\n'),
        (["Transfer-Encoding: chunked"], b'4\r\n"ab"x0\r\n\r\n'),
    ],
)
def test_a_body_that_breaks_off_is_not_taken_in(
    web: Server, count_events: Callable[[], int], lines: list[str], body: bytes
) -> None:
    before = count_events()
    with closing(web.open()) as connection:
        connection.sendall(web.head("Content-Type: application/json", *lines) + body)
        connection.shutdown(socket.SHUT_WR)
        response, problem = read(connection)
    assert (response.status, problem["code"]) == (400, "broken_body")
    assert count_events() == before


def test_a_body_without_a_length_is_empty(web: Server) -> None:
    response, problem = web.send(web.head("Content-Type: application/json"))
    assert (response.status, problem["code"]) == (400, "empty_body")


def test_fifty_at_once_with_one_key_are_one_event(web: Server, owner: Connection[Any]) -> None:
    def post(_number: int) -> tuple[HTTPResponse, Any]:
        return web.publish(b'{"order": 7}', "Idempotency-Key: fifty-at-once")

    with ThreadPoolExecutor(50) as crowd:
        answers = list(crowd.map(post, range(50)))
    assert {response.status for response, _ in answers} == {202}
    assert len({answer["id"] for _, answer in answers}) == 1
    assert sorted(answer["duplicate"] for _, answer in answers) == [False] + [True] * 49
    found = owner.execute(
        "SELECT count(*) FROM webhook_events WHERE idempotency_key = 'fifty-at-once'"
    ).fetchone()
    assert found == (1,)
    response, problem = web.publish(b'{"order": 8}', "Idempotency-Key: fifty-at-once")
    assert (response.status, problem["code"]) == (409, "idempotency_key_reused")


def test_a_key_with_a_comma_is_one_key_and_two_keys_are_none(web: Server) -> None:
    response, _ = web.publish(b"{}", "Idempotency-Key: a,b")
    assert response.status == 202
    response, problem = web.publish(b"{}", "Idempotency-Key: a", "Idempotency-Key: b")
    assert (response.status, problem["field"]) == (422, "Idempotency-Key")


def test_two_tokens_are_none(web: Server) -> None:
    response, problem = web.publish(b"{}", f"Authorization: Bearer {web.token}")
    assert (response.status, problem["code"]) == (401, "unauthenticated")


def test_a_connection_serves_one_request_after_another(web: Server) -> None:
    with closing(web.open()) as connection:
        for status, body in ((400, b"{"), (202, b"{}"), (400, b"]")):
            length = f"Content-Length: {len(body)}"
            connection.sendall(web.head("Content-Type: application/json", length) + body)
            response, _ = read(connection)
            assert response.status == status


def test_another_host_is_refused_with_a_problem(web: Server) -> None:
    head = web.head("Content-Length: 0").replace(b"127.0.0.1", b"evil.example")
    response, problem = web.send(head)
    assert (response.status, problem["code"]) == (400, "bad_request")
