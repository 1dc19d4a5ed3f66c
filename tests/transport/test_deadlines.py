"""A request ends in time, whatever the other side does or does not do."""

from __future__ import annotations

import socket
import threading
import time
import uuid

import pytest

from fencepost.model import ErrorClass, Lease, Outgoing, Reply
from peers import OK, Peer, answering
from trials import Client, MakeClient, Serve, resolving
from waiting import eventually

LIMIT = 0.5


def assert_ended_at_the_deadline(reply: Reply, error: ErrorClass | None) -> None:
    assert reply.error is error
    assert LIMIT * 1000 - 10 <= reply.latency_ms < LIMIT * 1000 + 700
    assert reply.message is not None


def silent(peer: Peer) -> None:
    peer.pause()


def silent_after_the_request(peer: Peer) -> None:
    peer.read_request()
    peer.pause()


def half_a_status_line(peer: Peer) -> None:
    peer.read_request()
    peer.send(b"HTTP/1.1 2")
    peer.pause()


def dripping_head(peer: Peer) -> None:
    peer.read_request()
    peer.drip(b"HTTP/1.1 200 OK\r\nX-Drip: " + b"x" * 10_000)


def dripping_headers(peer: Peer) -> None:
    peer.read_request()
    peer.send(b"HTTP/1.1 200 OK\r\n")
    while not peer.pause(0.02):
        peer.send(b"X: y\r\n")


def continuing(peer: Peer) -> None:
    peer.read_request()
    while not peer.pause(0.02):
        peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")


def hinting(peer: Peer) -> None:
    peer.read_request()
    while not peer.pause(0.02):
        peer.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")


@pytest.mark.parametrize(
    "play",
    [
        silent,
        silent_after_the_request,
        half_a_status_line,
        dripping_head,
        dripping_headers,
        continuing,
        hinting,
    ],
)
def test_no_head_in_time_is_a_timeout(hasty: Client, serve: Serve, play: object) -> None:
    reply = hasty.post(serve(play).url)  # type: ignore[arg-type]
    assert reply.status is None
    assert_ended_at_the_deadline(reply, ErrorClass.TIMEOUT)


def test_a_receiver_that_never_reads_is_a_timeout(hasty: Client, serve: Serve) -> None:
    reply = hasty.post(serve(silent).url, body=b"x" * (32 << 20))
    assert reply.status is None
    assert_ended_at_the_deadline(reply, ErrorClass.TIMEOUT)


@pytest.mark.parametrize("status", [200, 503])
@pytest.mark.parametrize(
    "framing", ["Content-Length: 10000", "Connection: close", "Transfer-Encoding: chunked"]
)
def test_a_dripping_body_leaves_the_status(
    hasty: Client, serve: Serve, status: int, framing: str
) -> None:
    def play(peer: Peer) -> None:
        peer.read_request()
        peer.send(f"HTTP/1.1 {status} X\r\n{framing}\r\n\r\n".encode())
        if "chunked" in framing:
            while not peer.pause(0.02):
                peer.send(b"1\r\nx\r\n")
        peer.drip(b"x" * 10_000)

    reply = hasty.post(serve(play).url)
    assert reply.status == status
    assert_ended_at_the_deadline(reply, None)
    assert reply.body.startswith(b"xx")
    assert reply.body_truncated


def test_a_slow_but_whole_answer_within_the_deadline_is_well(
    make_client: MakeClient, serve: Serve
) -> None:
    def play(peer: Peer) -> None:
        peer.read_request()
        peer.drip(OK, every=0.005)

    reply = make_client(deadline=10.0).post(serve(play).url)
    assert (reply.status, reply.body, reply.message) == (200, b"ok", None)


def test_a_tcp_connection_that_is_not_taken_is_a_timeout(make_client: MakeClient) -> None:
    # A full backlog answers no SYN: what a filtered port does, on loopback.
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        reply = make_client(deadline=5.0, connect=0.3).post(f"http://127.0.0.1:{port}/")
        for filler in fillers:
            filler.close()
    assert (reply.status, reply.error) == (None, ErrorClass.TIMEOUT)
    assert 290 <= reply.latency_ms < 1500


def test_the_deadline_begins_before_the_look_up(make_client: MakeClient, serve: Serve) -> None:
    def slowly() -> list[str]:
        threading.Event().wait(0.3)
        return ["127.0.0.1"]

    port = serve(silent_after_the_request).port
    client = make_client(names={"slow.test": slowly}, deadline=LIMIT, connect=0.4)
    reply = client.post(f"http://slow.test:{port}/")
    assert_ended_at_the_deadline(reply, ErrorClass.TIMEOUT)
    assert reply.detail["dns_ms"] >= 290  # type: ignore[operator]


def test_a_look_up_that_hangs_ends_with_its_budget(make_client: MakeClient) -> None:
    hangs = threading.Event()

    def hanging() -> list[str]:
        hangs.wait(30)
        return []

    client = make_client(resolver=resolving({"hang.test": hanging}, budget=0.2))
    replies = [client.post("https://hang.test/") for _ in range(2)]
    hangs.set()
    assert [reply.error for reply in replies] == [ErrorClass.DNS] * 2
    assert 190 <= replies[0].latency_ms < 1500
    assert replies[1].latency_ms < 100  # the same look-up still hangs: known at once


def test_a_lost_lease_cuts_its_request_off_and_no_other(client: Client, serve: Serve) -> None:
    server = serve(silent_after_the_request)
    lost, kept = client.start(server.url), client.start(server.url)
    wait_for_requests(server.requests, 2)
    client.transport.abort(lost.outgoing.lease)
    reply = lost.reply()
    assert (reply.status, reply.error, reply.message) == (None, ErrorClass.RESET, "lease lost")
    assert type(reply.message) is str  # psycopg would store an enumeration by its name
    assert not kept.is_done


def test_a_lost_lease_cuts_a_request_off_that_never_left(
    make_client: MakeClient, serve: Serve
) -> None:
    server = serve(silent_after_the_request)
    client = make_client(concurrency=1)
    first, queued = client.start(server.url), client.start(server.url)
    wait_for_requests(server.requests, 1)
    client.transport.abort(queued.outgoing.lease)
    client.transport.abort(first.outgoing.lease)
    assert [sent.reply().message for sent in (first, queued)] == ["lease lost"] * 2
    assert len(server.requests) == 1


def test_aborting_what_has_ended_does_nothing(client: Client, serve: Serve) -> None:
    server = serve(answering(OK))
    sent = client.start(server.url)
    assert sent.reply().status == 200
    client.transport.abort(sent.outgoing.lease)
    assert client.post(server.url).status == 200


def test_closing_lets_what_is_in_flight_end(client: Client, serve: Serve) -> None:
    release = threading.Event()

    def play(peer: Peer) -> None:
        peer.read_request()
        release.wait(10)
        peer.send(OK)

    server = serve(play)
    sent = client.start(server.url)
    wait_for_requests(server.requests, 1)
    closing = threading.Thread(target=client.transport.close, kwargs={"wait": 10})
    closing.start()
    release.set()
    assert sent.reply().status == 200
    closing.join(10)
    assert not closing.is_alive()


def test_closing_cuts_off_what_takes_longer(client: Client, serve: Serve) -> None:
    server = serve(silent_after_the_request)
    sent = client.start(server.url)
    wait_for_requests(server.requests, 1)
    began = time.monotonic()
    client.transport.close(wait=0.1)
    assert time.monotonic() - began < 2
    assert sent.is_done
    assert sent.reply().error is ErrorClass.RESET
    assert client.post(server.url).error is ErrorClass.LOCAL_ERROR


def test_done_that_raises_hurts_nobody(client: Client, serve: Serve) -> None:
    def clumsy(_: object, __: object) -> None:
        called.append(1)
        raise RuntimeError("of the test")

    called: list[int] = []
    server = serve(answering(OK))
    for number in range(20):
        outgoing = Outgoing(Lease(uuid.uuid4(), "worker", number), server.url, (), b"{}")
        client.transport.send(outgoing, clumsy)
    eventually(lambda: len(called) == 20)
    assert client.post(server.url).status == 200


def wait_for_requests(requests: list[bytes], count: int) -> None:
    eventually(lambda: len(requests) >= count)
