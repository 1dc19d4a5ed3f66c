"""What holds for the curl transport beyond the trials that it shares."""

from __future__ import annotations

import socket
import threading
import time
import uuid
from ipaddress import ip_network
from pathlib import Path

import pytest

from fencepost.model import ErrorClass, Lease, Outgoing, Reply
from peers import OK, Peer, PeerServer, answering, answering_once
from trials import LOOPBACK, Client, Serve, resolving
from waiting import eventually
from worker.resolver import Resolver
from worker.transport import curl
from worker.transport.authorities import Authorities
from worker.transport.curl import CurlTransport


def made(resolver: Resolver, **options: object) -> Client:
    chosen: dict[str, object] = {
        "deadline": 10.0,
        "connect": 5.0,
        "concurrency": 8,
        "allow_networks": LOOPBACK,
        "allow_http": True,
        **options,
    }
    return Client(CurlTransport(resolver, **chosen))  # type: ignore[arg-type]


def test_the_socket_itself_refuses_what_a_resolver_let_through(serve: Serve) -> None:
    server = serve(answering(OK))
    careless = resolving({"a.test": ["127.0.0.1"]}, allow_networks=LOOPBACK)
    client = made(careless, allow_networks=[ip_network("10.0.0.0/8")])
    reply = client.post(f"http://a.test:{server.port}/")
    client.close()
    assert (reply.status, reply.error) == (None, ErrorClass.ADDRESS_FORBIDDEN)
    assert reply.message == "127.0.0.1 is a loopback address"
    assert server.connections == 0


def test_a_connection_is_closed_as_soon_as_the_other_side_does(serve: Serve) -> None:
    server = serve(answering_once(OK))
    client = made(resolving({}))
    before = len(list(Path("/dev/fd").iterdir()))
    assert client.post(server.url).status == 200
    eventually(lambda: len(list(Path("/dev/fd").iterdir())) <= before)
    client.close()


def test_one_thread_does_it_all(serve: Serve) -> None:
    threads: set[str] = set()

    def done(_: Outgoing, reply: Reply) -> None:
        threads.add(threading.current_thread().name)
        statuses.append(reply.status)

    statuses: list[int | None] = []
    server = serve(answering(OK))
    client = made(resolving({}))
    for number in range(40):
        outgoing = Outgoing(Lease(uuid.uuid4(), "worker", number), server.url, (), b"{}")
        client.transport.send(outgoing, done)
    eventually(lambda: len(statuses) == 40)
    client.close()
    assert set(statuses) == {200}
    assert threads == {"curl"}


def test_a_request_sent_from_done_leaves_too(serve: Serve) -> None:
    server = serve(answering(OK))
    client = made(resolving({}), concurrency=1)
    statuses: list[int | None] = []

    def done(outgoing: Outgoing, reply: Reply) -> None:
        statuses.append(reply.status)
        if len(statuses) < 10:
            client.transport.send(outgoing, done)

    client.transport.send(Outgoing(Lease(uuid.uuid4(), "worker", 1), server.url, (), b"{}"), done)
    eventually(lambda: len(statuses) == 10)
    client.close()
    assert set(statuses) == {200}
    assert server.connections == 1


def test_a_large_request_leaves_in_pieces_and_whole(serve: Serve) -> None:
    server = serve(answering(OK))
    client = made(resolving({}))
    body = bytes(range(256)) * (1 << 14)
    assert client.post(server.url, body=body).status == 200
    client.close()
    assert server.requests[0].endswith(body)


def test_a_request_that_was_not_sent_whole_leaves_no_clean_connection(serve: Serve) -> None:
    def play(peer: Peer) -> None:
        if peer.number == 1:
            peer.read_some(1000)
            peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
            peer.pause()
        answering(OK)(peer)

    server = serve(play)
    client = made(resolving({}))
    assert client.post(server.url, body=b"x" * (8 << 20)).status == 413
    reply = client.post(server.url)
    client.close()
    assert (reply.status, reply.detail["reused"]) == (200, False)


def test_a_connection_that_was_closed_before_the_loop_could_see_it_is_not_used(
    serve: Serve,
) -> None:
    server = serve(answering_once(OK))
    client = made(resolving({}), concurrency=1)
    replies: list[Reply] = []

    def done(_: Outgoing, reply: Reply) -> None:
        replies.append(reply)
        eventually(lambda: server.ended == len(replies))  # holds the loop up

    for number in range(4):
        outgoing = Outgoing(Lease(uuid.uuid4(), "worker", number), server.url, (), b"{}")
        client.transport.send(outgoing, done)
    eventually(lambda: len(replies) == 4)
    client.close()
    assert [(reply.status, reply.detail["reused"]) for reply in replies] == [(200, False)] * 4


def test_a_lost_lease_ends_a_look_up_and_a_connection_too() -> None:
    hangs = threading.Event()

    def hanging() -> list[str]:
        hangs.wait(30)
        return []

    client = made(resolving({"hang.test": hanging}))
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        sent = [
            client.start(f"http://hang.test:{port}/"),
            client.start(f"http://127.0.0.1:{port}/"),
        ]
        began = time.monotonic()
        for one in sent:
            client.transport.abort(one.outgoing.lease)
        assert [one.reply().message for one in sent] == ["lease lost"] * 2
        assert time.monotonic() - began < 2
        for filler in fillers:
            filler.close()
    hangs.set()
    client.close()


def test_a_defect_in_the_loop_is_no_end_to_it(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve(answering(OK))
    client = made(resolving({}))
    monkeypatch.setattr(curl, "_PAUSE_SECONDS", 0.01)
    broken = [True]
    turn = CurlTransport._turn  # noqa: SLF001

    def breaking(transport: CurlTransport) -> None:
        if broken:
            broken.pop()
            raise RuntimeError("of the test")
        turn(transport)

    monkeypatch.setattr(CurlTransport, "_turn", breaking)
    assert client.post(server.url).status == 200
    client.close()
    assert "transport.turn_failed" in caplog.text


def test_a_transport_that_never_sent_closes() -> None:
    client = made(resolving({}))
    client.close()
    client.close()
    with PeerServer(answering(OK)) as server:
        assert client.post(server.url).error is ErrorClass.LOCAL_ERROR


def test_the_authorities_of_the_system_and_certifi_stand_in_one_file(tmp_path: Path) -> None:
    authorities = Authorities()
    path = Path(authorities.path)
    found = path.read_bytes()
    assert found.count(b"BEGIN CERTIFICATE") == found.count(b"END CERTIFICATE") > 50
    authorities.close()
    assert not path.exists()
    chosen = tmp_path / "own.pem"
    chosen.write_text("own")
    Authorities(chosen).close()
    assert chosen.exists()
