"""One request for each ``Outgoing``, over connections that are used again only when clean."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.model import ErrorClass
from peers import OK, Peer, PeerServer, answering, answering_once
from trials import Client, MakeClient, Serve
from waiting import eventually

# what is sent


def test_the_request_is_what_was_handed_over(client: Client, serve: Serve) -> None:
    server = serve(answering(OK))
    body = bytes(range(256))
    client.post(f"{server.url}//a/%2e/b?x=1&x=2", headers={"X-Custom": "a  b"}, body=body)
    head, _, sent = server.requests[0].partition(b"\r\n\r\n")
    line, *headers = head.split(b"\r\n")
    assert line == b"POST //a/%2E/b?x=1&x=2 HTTP/1.1"
    assert sent == body
    assert sorted(headers) == sorted(
        [
            f"Host: 127.0.0.1:{server.port}".encode(),
            b"Accept-Encoding: identity",
            b"User-Agent: Fencepost/test",
            b"Content-Type: application/json",
            b"X-Custom: a  b",
            b"Content-Length: 256",
        ]
    )


def test_an_empty_body_is_sent_as_one(client: Client, serve: Serve) -> None:
    server = serve(answering(OK))
    assert client.post(server.url, body=b"").status == 200
    assert b"Content-Length: 0\r\n" in server.requests[0]


@pytest.mark.parametrize(
    "headers",
    [{"X-A": "a\nb"}, {"X-A": "ž"}, {"X-A": "a\x00"}, {"X A": "v"}, {"": "v"}, {"user-agent": "2"}],
)
def test_a_header_that_cannot_be_sent_stops_the_request(
    client: Client, serve: Serve, headers: dict[str, str]
) -> None:
    server = serve(answering(OK))
    reply = client.post(server.url, headers=headers)
    assert (reply.status, reply.error) == (None, ErrorClass.INVALID_HEADER)
    assert server.connections == 0


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1:8080/",
        "http://[::1]:8080/",
        "http://2130706433:8080/",
        "http://.example.com/",
        f"http://{'a' * 64}.com/",
        "http://*/",
        "http://ex ample/",
        "http:///x",
        "http://example.com:99999/",
        "http://xn--a/",
        "ftp://example.com/",
        "",
    ],
)
def test_a_url_that_should_never_have_been_stored_is_refused(client: Client, url: str) -> None:
    reply = client.post(url)
    assert (reply.status, reply.error) == (None, ErrorClass.INVALID_URL)


def test_plain_http_is_refused_without_the_setting(make_client: MakeClient, serve: Serve) -> None:
    server = serve(answering(OK))
    reply = make_client(allow_http=False).post(server.url)
    assert reply.error is ErrorClass.INVALID_URL
    assert server.connections == 0


def test_no_proxy_netrc_or_environment_has_a_say(
    client: Client, serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server, proxy = serve(answering(OK)), serve(answering(OK))
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login root password hunter2\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url)
    assert client.post(server.url).status == 200
    assert client.post(server.url, headers={"Authorization": "Bearer x"}).status == 200
    assert proxy.connections == 0
    assert b"authorization" not in server.requests[0].lower()
    assert b"Authorization: Bearer x\r\n" in server.requests[1]


def test_a_cookie_is_never_sent_back(client: Client, serve: Serve) -> None:
    cookie = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n"
    server = serve(answering(cookie))
    for _ in range(3):
        assert client.post(server.url).status == 200
    assert all(b"cookie" not in request.lower() for request in server.requests)


# what is used again


def test_a_clean_connection_is_used_again(client: Client, serve: Serve) -> None:
    server = serve(answering(OK))
    replies = [client.post(server.url) for _ in range(5)]
    assert server.connections == 1
    assert [reply.detail["reused"] for reply in replies] == [False, True, True, True, True]
    assert {"ip", "dns_ms", "connect_ms", "first_byte_ms"} <= replies[0].detail.keys()
    assert replies[1].detail.keys() == {"ip", "reused", "first_byte_ms"}
    assert all(reply.detail["ip"] == "127.0.0.1" for reply in replies)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_any_answer_with_a_plain_end_keeps_the_connection(
    client: Client, serve: Serve, answer: bytes
) -> None:
    server = serve(answering(answer))
    for _ in range(3):
        client.post(server.url)
    assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 205 Reset\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok",
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"2\r\nok\r\n0\r\n\r\n"
        ),
        b"HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70000,
    ],
)
def test_any_doubt_about_the_end_closes_the_connection(
    client: Client, serve: Serve, answer: bytes
) -> None:
    server = serve(answering(answer))
    for _ in range(2):
        assert client.post(server.url).status in {200, 204, 205}
    assert server.connections == 2


def test_a_connection_that_dies_under_the_second_request_fails_that_one_only(
    client: Client, serve: Serve
) -> None:
    def play(peer: Peer) -> None:
        peer.read_request()
        peer.send(OK)
        peer.read_request()

    server = serve(play)
    replies = [client.post(server.url) for _ in range(3)]
    assert [reply.status for reply in replies] == [200, None, 200]
    assert replies[1].error is ErrorClass.RESET
    assert len(server.requests) == 3  # one each, and none of them twice


def test_a_connection_that_was_closed_meanwhile_is_not_used(client: Client, serve: Serve) -> None:
    server = serve(answering_once(OK))
    for _ in range(3):
        reply = client.post(server.url)
        assert (reply.status, reply.detail["reused"]) == (200, False)
        eventually(lambda: server.ended == server.connections)
    assert len(server.requests) == 3


def test_what_was_cut_off_is_not_used_again(hasty: Client, serve: Serve) -> None:
    def play(peer: Peer) -> None:
        while peer.read_request():
            if peer.number == 1:
                peer.pause(2)
            peer.send(OK)

    server = serve(play)
    assert hasty.post(server.url).error is ErrorClass.TIMEOUT
    reply = hasty.post(server.url)
    assert (reply.status, reply.detail["reused"]) == (200, False)


# how many


def test_no_more_requests_are_in_flight_than_allowed(make_client: MakeClient, serve: Serve) -> None:
    release = threading.Event()

    def play(peer: Peer) -> None:
        while peer.read_request():
            release.wait(10)
            peer.send(OK)

    server = serve(play)
    client = make_client(concurrency=3)
    assert client.transport.capacity == 3
    sent = [client.start(server.url) for _ in range(9)]
    eventually(lambda: len(server.requests) == 3)
    assert server.connections == 3
    release.set()
    assert [one.reply().status for one in sent] == [200] * 9
    assert server.connections == 3


def test_idle_connections_to_many_hosts_are_few(make_client: MakeClient, serve: Serve) -> None:
    names = {f"host{number}.test": ["127.0.0.1"] for number in range(12)}
    client = make_client(names=names, concurrency=2)
    server = serve(answering(OK))
    before = open_descriptors()
    for name in names:
        assert client.post(f"http://{name}:{server.port}/").status == 200
    # Both ends of a connection are in this process, and ours may have a second descriptor, by which
    # it can be cut; the last one's may be closing still.
    eventually(lambda: open_descriptors() - before <= 2 * 3, within=2)


def test_no_descriptor_is_left_open(make_client: MakeClient) -> None:
    plays: list[Callable[[Peer], None]] = [
        answering(OK),
        answering_once(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut"),
        answering_once(b"rubbish\r\n\r\n"),
        answering_once(b"HTTP/1.1 302 Found\r\nLocation: http://[x\r\n\r\n"),
        lambda peer: peer.reset(),
        lambda peer: peer.drip(OK, every=0.1),
    ]
    before = open_descriptors()
    client = make_client(deadline=0.2, connect=0.2, names={"mixed.test": ["127.0.0.1", "10.0.0.1"]})
    servers = [PeerServer(play) for play in plays]
    urls = [server.url for server in servers]
    urls += ["http://127.0.0.1:32768/", "http://mixed.test:8080/", "http://none.test/", "rubbish"]
    for sent in [client.start(url) for url in urls * 5]:
        sent.reply()
    for server in servers:
        server.__exit__()
    client.close()
    eventually(lambda: open_descriptors() <= before)


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


# where it breaks off


@pytest.mark.parametrize("stage", range(0, len(OK) - 2, 7))
@pytest.mark.parametrize("ending", ["close", "reset"])
def test_a_connection_that_breaks_in_the_head_is_reset(
    client: Client, serve: Serve, stage: int, ending: str
) -> None:
    def play(peer: Peer) -> None:
        peer.read_request()
        peer.send(OK[:stage])
        if ending == "reset":
            peer.pause(0.02)  # let the bytes arrive before the RST throws them away
            peer.reset()

    server = serve(play)
    reply = client.post(server.url)
    assert (reply.status, reply.error) == (None, ErrorClass.RESET)
    assert len(server.requests) == 1


def test_a_reset_before_the_request_was_read_is_reset(client: Client, serve: Serve) -> None:
    def play(peer: Peer) -> None:
        peer.read_some(1)
        peer.reset()

    reply = client.post(serve(play).url, body=b"x" * (1 << 20))
    assert (reply.status, reply.error) == (None, ErrorClass.RESET)


def test_a_closed_port_is_a_failure_to_connect(client: Client, serve: Serve) -> None:
    server = serve(answering(OK))
    server.__exit__()
    reply = client.post(server.url)
    assert (reply.status, reply.error) == (None, ErrorClass.CONNECT)
    assert reply.message == f"127.0.0.1 port {server.port}: Connection refused"
    assert reply.detail["ip"] == "127.0.0.1"
