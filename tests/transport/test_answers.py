"""Whatever a receiver answers becomes a status, or a class of failure."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest

from fencepost.model import ErrorClass, Reply
from peers import OK, Peer, answering, answering_once
from trials import Client, Serve


def answer_of(client: Client, serve: Serve, answer: bytes) -> Reply:
    server = serve(answering_once(answer))
    reply = client.post(server.url)
    assert len(server.requests) == 1
    return reply


def head(status: str, *lines: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("latin-1")


# statuses


@pytest.mark.parametrize(
    "status",
    [200, 201, 202, 204, 205, 206, 299, 300, 304, 400, 401, 404, 408, 410, 429, 500, 503, 600, 999],
)
def test_a_status_is_given_as_it_came(client: Client, serve: Serve, status: int) -> None:
    reply = answer_of(client, serve, head(f"{status} Whatever", "Content-Length: 0"))
    assert (reply.status, reply.error, reply.message) == (status, None, None)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("location", ["/elsewhere", "http://169.254.169.254/", "http://[bad"])
def test_no_redirect_is_followed(client: Client, serve: Serve, status: int, location: str) -> None:
    server = serve(answering(head(f"{status} Go", f"Location: {location}", "Content-Length: 0")))
    reply = client.post(server.url)
    assert reply.status == status
    assert ("Location", location) in reply.headers
    assert len(server.requests) == 1


def test_the_body_of_a_redirect_is_not_read_to_its_end(client: Client, serve: Serve) -> None:
    def play(peer: Peer) -> None:
        peer.read_request()
        peer.send(head("302 Found", "Location: \xff\xfe", f"Content-Length: {200 << 20}"))
        for _ in range(200 << 4):
            peer.send(b"x" * (1 << 16))

    tracemalloc.start()
    reply = client.post(serve(play).url)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reply.status == 302
    assert ("Location", r"\xff\xfe") in reply.headers
    assert peak < 2 << 20


@pytest.mark.parametrize(
    "line",
    [
        b"HTTP/1.1 099 Low\r\n\r\n",
        b"HTTP/1.1 99 Low\r\n\r\n",
        b"HTTP/1.1 2000 High\r\n\r\n",
        b"HTTP/1.1 -200 Minus\r\n\r\n",
        b"HTTP/1.1 200OK\r\n\r\n",
        b"HTTP/1.1 \r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"hello\r\n\r\n",
        b"\x00\x01\x02\xff\n\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"-ERR unknown command\r\n",
        b"220 mail.example.com ESMTP\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80\n",
        b"<html>HTTP/0.9</html>\n",
        b"\r\n\r\n",
        b"x" * 70_000 + b"\r\n",
    ],
)
def test_what_is_no_status_line_is_a_bad_response(
    client: Client, serve: Serve, line: bytes
) -> None:
    reply = answer_of(client, serve, line)
    assert (reply.status, reply.error) == (None, ErrorClass.BAD_RESPONSE)
    assert reply.message is not None
    assert reply.message.isprintable()
    assert len(reply.message) <= 500


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 201 Created\r\n\r\n",
        b"HTTP/1.9 201 Created\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 201\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 201 Created\nContent-Length: 0\n\n",
        b"HTTP/1.1 201 \xe9\x00\xff\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 201 Created\r\nX-Folded: a\r\n b\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 201 Created\r\nno colon\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 201 Created\r\nX-Space : a\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 201 Created\r\nContent-Length: -5\r\n\r\nhello",
        b"HTTP/1.1 201 Created\r\nContent-Length: 5, 5\r\n\r\nhello",
        b"HTTP/1.1 201 Created\r\nContent-Length: x\r\n\r\nhello",
        (
            b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"2\r\nok\r\n0\r\n\r\n"
        ),
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ],
)
def test_sloppy_answers_count_by_their_status(client: Client, serve: Serve, answer: bytes) -> None:
    assert answer_of(client, serve, answer).status == 201


# interim answers


@pytest.mark.parametrize(
    "interim",
    [
        head("100 Continue"),
        head("102 Processing"),
        head("103 Early Hints", "Link: </a>"),
        head("103 Early Hints") * 9,
        head("100 Continue") + head("103 Early Hints") + head("100 Continue"),
    ],
)
def test_interim_answers_are_passed_over(client: Client, serve: Serve, interim: bytes) -> None:
    reply = answer_of(client, serve, interim + OK)
    assert (reply.status, reply.body) == (200, b"ok")
    assert "Link" not in dict(reply.headers)


def test_a_late_final_answer_is_not_taken_for_the_next_request_s(
    client: Client, serve: Serve
) -> None:
    def play(peer: Peer) -> None:
        while request := peer.read_request():
            peer.send(head("103 Early Hints"))
            peer.pause(0.05)
            body = request[-1:]
            peer.send(head("200 OK", "Content-Length: 1") + body)

    server = serve(play)
    bodies = [client.post(server.url, body=str(n).encode()).body for n in range(4)]
    assert bodies == [b"0", b"1", b"2", b"3"]
    assert server.connections == 1


def test_a_flood_of_interim_answers_is_a_bad_response(client: Client, serve: Serve) -> None:
    def play(peer: Peer) -> None:
        peer.read_request()
        while True:
            peer.send(head("100 Continue") * 100)

    reply = client.post(serve(play).url)
    assert (reply.status, reply.error) == (None, ErrorClass.BAD_RESPONSE)


def test_switching_protocols_is_an_answer_that_ends_the_connection(
    client: Client, serve: Serve
) -> None:
    server = serve(answering(head("101 Switching Protocols", "Upgrade: x", "Connection: Upgrade")))
    assert client.post(server.url).status == 101
    assert client.post(server.url).status == 101
    assert server.connections == 2


# headers


def test_bytes_of_any_kind_in_headers_can_be_stored(client: Client, serve: Serve) -> None:
    raw = b"HTTP/1.1 200 OK\r\nX-Nul: a\x00b\r\nX-Latin: \xe9\x80\r\nX-\xe9: v\r\n"
    reply = answer_of(client, serve, raw + b"Content-Length: 0\r\n\r\n")
    assert ("X-Nul", r"a\x00b") in reply.headers
    assert ("X-Latin", r"\xe9\x80") in reply.headers
    for name, value in reply.headers:
        assert name.isascii()
        assert (name + value).isprintable()
    json.dumps(reply.headers)


@pytest.mark.parametrize(
    "line",
    [
        b"Bad Header",
        b"X-\xe9: v",
        b": v",
        b"X Y: v",
        b"\x00\xff",
        b"x" * 1000,
        b" folded onto nothing",
    ],
)
def test_a_line_that_is_no_header_hides_none_of_the_others(
    client: Client, serve: Serve, line: bytes
) -> None:
    head_line = b"HTTP/1.1 200 OK\r\n"
    server = serve(answering(head_line + line + b"\r\nContent-Length : 2\r\nX-A: b\r\n\r\nok"))
    for _ in range(2):
        reply = client.post(server.url)
        assert (reply.status, reply.body, reply.message) == (200, b"ok", None)
        assert reply.headers == (("Content-Length", "2"), ("X-A", "b"))
    assert server.connections == 1


def test_headers_are_kept_in_order_and_bounded(client: Client, serve: Serve) -> None:
    reply = answer_of(client, serve, head("200 OK", "B: 1", "A: " + "x" * 5000, "B: 2"))
    assert [name for name, _ in reply.headers] == ["B", "B", "A"]
    assert all(len(value) <= 1000 for _, value in reply.headers)


@pytest.mark.parametrize(
    "lines",
    [
        [f"X-{number}: v" for number in range(101)],
        ["X-Long: " + "v" * 70_000],
        [f"X-{number}: " + "v" * 60_000 for number in range(6)],
        ["Content-Length: 2", "Content-Length: 3"],
        ["Content-Length: 2, 3"],
    ],
)
def test_a_head_beyond_all_measure_or_sense_is_a_bad_response(
    client: Client, serve: Serve, lines: list[str]
) -> None:
    reply = answer_of(client, serve, head("200 OK", *lines) + b"ok")
    assert (reply.status, reply.error) == (None, ErrorClass.BAD_RESPONSE)


def test_a_hundred_headers_are_no_trouble(client: Client, serve: Serve) -> None:
    reply = answer_of(client, serve, head("200 OK", *(f"X-{number}: v" for number in range(99))))
    assert reply.status == 200
    assert len(reply.headers) == 99


# bodies


def test_the_first_four_kilobytes_are_kept_as_they_came(client: Client, serve: Serve) -> None:
    body = bytes(range(256)) * 16
    reply = answer_of(client, serve, head("500 No", "Content-Length: 4096") + body)
    assert (reply.body, reply.body_truncated) == (body, False)
    reply = answer_of(client, serve, head("500 No", "Content-Length: 4097") + body + b"x")
    assert (reply.body, reply.body_truncated) == (body, True)


@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Length: 100\r\n\r\nonly this",
        b"Transfer-Encoding: chunked\r\n\r\n9\r\nonly this\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n9\r\nonly this\r\nZZ\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n50\r\nonly this",
    ],
)
@pytest.mark.parametrize("status", [200, 500])
def test_the_status_stands_when_the_body_is_cut(
    client: Client, serve: Serve, rest: bytes, status: int
) -> None:
    reply = answer_of(client, serve, f"HTTP/1.1 {status} X\r\n".encode() + rest)
    assert (reply.status, reply.error) == (status, None)
    assert reply.message is not None
    assert (reply.body, reply.body_truncated) == (b"only this", True)


@pytest.mark.parametrize("coding", ["gzip", "br", "gzip, gzip, gzip, gzip, gzip, gzip", "\x00"])
def test_a_body_is_never_decoded(client: Client, serve: Serve, coding: str) -> None:
    answer = head("200 OK", f"Content-Encoding: {coding}", "Content-Length: 5") + b"plain"
    reply = answer_of(client, serve, answer)
    assert (reply.status, reply.body, reply.message) == (200, b"plain", None)


def test_a_gzip_bomb_stays_what_it_is_on_the_wire(client: Client, serve: Serve) -> None:
    bomb = gzip.compress(b"\x00" * (52 << 20))
    answer = head("200 OK", "Content-Encoding: gzip", f"Content-Length: {len(bomb)}") + bomb
    tracemalloc.start()
    reply = answer_of(client, serve, answer)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (reply.status, reply.body, reply.body_truncated) == (200, bomb[:4096], True)
    assert peak < 2 << 20


@pytest.mark.parametrize("framing", [f"Content-Length: {52 << 20}", "Connection: close", "chunked"])
def test_of_an_endless_body_64_kilobytes_are_read(
    client: Client, serve: Serve, framing: str
) -> None:
    sent = 0

    def play(peer: Peer) -> None:
        nonlocal sent
        peer.read_request()
        block = b"x" * (1 << 14)
        if framing == "chunked":
            peer.send(head("200 OK", "Transfer-Encoding: chunked"))
            block = b"4000\r\n" + block + b"\r\n"
        else:
            peer.send(head("200 OK", framing))
        while True:
            peer.send(block)
            sent += len(block)

    server = serve(play)
    tracemalloc.start()
    reply = client.post(server.url)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (reply.status, reply.error, reply.message) == (200, None, None)
    assert (reply.body, reply.body_truncated) == (b"x" * 4096, True)
    assert peak < 2 << 20
    assert sent < 32 << 20  # what the kernel buffered, and no more


def test_a_body_that_nobody_expected_poisons_nothing(client: Client, serve: Serve) -> None:
    server = serve(answering(head("204 No Content", "Content-Length: 5") + b"hello"))
    replies = [client.post(server.url) for _ in range(3)]
    assert [reply.status for reply in replies] == [204, 204, 204]
    assert [reply.body for reply in replies] == [b"", b"", b""]
    assert server.connections == 3


def test_bytes_after_an_answer_poison_nothing(client: Client, serve: Serve) -> None:
    server = serve(answering(OK + b"HTTP/1.1 500 Injected\r\nContent-Length: 0\r\n\r\n"))
    assert [client.post(server.url).status for _ in range(4)] == [200] * 4
    assert len(server.requests) == 4


def test_an_answer_before_the_body_was_read_counts(client: Client, serve: Serve) -> None:
    def play(peer: Peer) -> None:
        peer.read_some(1000)
        peer.send(head("413 Too Large", "Content-Length: 0", "Connection: close"))
        peer.pause(0.3)

    reply = client.post(serve(play).url, body=b"x" * (8 << 20))
    assert reply.status == 413


def test_an_answer_counts_though_the_connection_broke_under_the_request(
    client: Client, serve: Serve
) -> None:
    def play(peer: Peer) -> None:
        peer.read_some(1000)
        peer.send(head("413 Too Large", "Content-Length: 0"))
        peer.close()  # what it has not read makes this a reset

    assert client.post(serve(play).url, body=b"x" * (8 << 20)).status == 413
