"""One look-up, every address of it judged, and none dialled that was not."""

from __future__ import annotations

import socket
import sys
import threading
from ipaddress import ip_network

import pytest

from fencepost.model import ErrorClass
from peers import OK, PeerServer, answering
from trials import MakeClient, Serve, resolving
from waiting import eventually


def test_a_name_that_does_not_exist_is_a_dns_failure(make_client: MakeClient) -> None:
    reply = make_client().post("https://none.test/")
    assert (reply.status, reply.error) == (None, ErrorClass.DNS)
    assert reply.message == "none.test could not be resolved: Name or service not known"


def test_a_name_without_addresses_is_a_dns_failure(make_client: MakeClient) -> None:
    reply = make_client(names={"empty.test": []}).post("https://empty.test/")
    assert reply.error is ErrorClass.DNS


@pytest.mark.parametrize(
    "answer",
    [
        ["10.0.0.1"],
        ["127.0.0.1", "10.0.0.1"],
        ["10.0.0.1", "127.0.0.1"],
        ["127.0.0.1", "fd00::1"],
        ["127.0.0.1", "::ffff:10.0.0.1"],
        ["127.0.0.1", "fe80::1%1"],
        ["127.0.0.1"] * 200 + ["169.254.169.254"],
        ["127.0.0.1", "rubbish"],
    ],
)
def test_one_forbidden_address_refuses_the_whole_answer(
    make_client: MakeClient, serve: Serve, answer: list[str]
) -> None:
    server = serve(answering(OK))
    client = make_client(names={"mixed.test": answer})
    reply = client.post(f"http://mixed.test:{server.port}/")
    assert (reply.status, reply.error) == (None, ErrorClass.ADDRESS_FORBIDDEN)
    assert server.connections == 0


def test_the_setting_opens_networks_by_address_not_by_name(
    make_client: MakeClient, serve: Serve
) -> None:
    server = serve(answering(OK))
    closed = make_client(
        resolver=resolving({"a.test": ["127.0.0.1"]}, allow_networks=[ip_network("10.0.0.0/8")])
    )
    assert closed.post(f"http://a.test:{server.port}/").error is ErrorClass.ADDRESS_FORBIDDEN
    opened = make_client(names={"a.test": ["127.0.0.1"]})
    assert opened.post(f"http://a.test:{server.port}/").status == 200


def test_a_name_that_is_rebound_between_two_look_ups_is_judged_each_time(
    make_client: MakeClient, serve: Serve
) -> None:
    answers = [["127.0.0.1"], ["10.0.0.1"], ["127.0.0.1"]]
    server = serve(answering(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"))
    client = make_client(names={"rebound.test": lambda: answers.pop(0)})
    replies = [client.post(f"http://rebound.test:{server.port}/") for _ in range(3)]
    assert [reply.status for reply in replies] == [204, None, 204]
    assert replies[1].error is ErrorClass.ADDRESS_FORBIDDEN
    assert answers == []  # one look-up for each connection, none between check and dial


def test_the_address_that_was_checked_is_the_one_dialled(make_client: MakeClient) -> None:
    looked_up: list[str] = []

    def once() -> list[str]:
        looked_up.append("x")
        return ["127.0.0.1"]

    def tells(event: str, args: tuple[object, ...]) -> None:
        if event == "socket.getaddrinfo" and recording.is_set():
            looked_up.append(str(args[0]))

    recording = threading.Event()
    sys.addaudithook(tells)
    with PeerServer(answering(OK)) as server:
        client = make_client(names={"once.test": once})
        recording.set()
        assert client.post(f"http://once.test:{server.port}/").status == 200
        recording.clear()
        client.close()
    assert looked_up == ["x"]


def test_the_next_address_is_tried_when_one_refuses(make_client: MakeClient, serve: Serve) -> None:
    server = serve(answering(OK))
    client = make_client(names={"two.test": ["127.0.0.9", "127.0.0.1"]})
    reply = client.post(f"http://two.test:{server.port}/")
    assert (reply.status, reply.detail["ip"]) == (200, "127.0.0.1")
    assert len(server.requests) == 1


def test_an_address_that_swallows_everything_leaves_time_for_the_next(
    make_client: MakeClient, serve: Serve
) -> None:
    server = serve(answering(OK))
    with socket.create_server(("127.0.0.9", server.port), backlog=0):
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.9", server.port))
        client = make_client(
            names={"two.test": ["127.0.0.9", "127.0.0.1"]}, deadline=5.0, connect=1.0
        )
        reply = client.post(f"http://two.test:{server.port}/")
        for filler in fillers:
            filler.close()
    assert (reply.status, reply.detail["ip"]) == (200, "127.0.0.1")


def test_localhost_needs_no_look_up(make_client: MakeClient, serve: Serve) -> None:
    server = serve(answering(OK))
    for name in ("localhost", "hooks.localhost"):
        assert make_client().post(f"http://{name}:{server.port}/").status == 200


def test_dead_names_do_not_delay_a_healthy_one(make_client: MakeClient, serve: Serve) -> None:
    hangs = threading.Event()
    asked = 0

    def hanging() -> list[str]:
        nonlocal asked
        asked += 1
        hangs.wait(30)
        return []

    names = {f"dead{number}.test": hanging for number in range(24)}
    server = serve(answering(OK))
    resolver = resolving({**names, "healthy.test": ["127.0.0.1"]}, budget=3.0)
    client = make_client(resolver=resolver, concurrency=32)
    dead = [client.start(f"https://{name}/") for name in names]
    eventually(lambda: asked == 24)
    reply = client.post(f"http://healthy.test:{server.port}/")
    assert reply.status == 200
    assert reply.latency_ms < 1000
    hangs.set()
    assert {sent.reply().error for sent in dead} == {ErrorClass.DNS}
