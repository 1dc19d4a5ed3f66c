"""Many requests at once: the sick ones leave the healthy ones alone, and nothing is sent twice."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter

from fencepost.model import ErrorClass
from peers import OK, Peer, answering
from trials import MakeClient, Serve, resolving
from waiting import eventually


def test_two_hundred_dead_names_leave_a_healthy_one_alone(
    make_client: MakeClient, serve: Serve
) -> None:
    hangs = threading.Event()
    asked: list[int] = []

    def hanging() -> list[str]:
        asked.append(1)
        hangs.wait(30)
        return []

    names = {f"dead{number}.test": hanging for number in range(200)}
    server = serve(answering(OK))
    client = make_client(
        resolver=resolving({**names, "healthy.test": ["127.0.0.1"]}, budget=20.0),
        deadline=30.0,
        concurrency=256,
    )
    dead = [client.start(f"https://{name}/") for name in names]
    eventually(lambda: len(asked) == 200)
    reply = client.post(f"http://healthy.test:{server.port}/")
    assert reply.status == 200
    assert reply.latency_ms < 1000
    assert not any(sent.is_done for sent in dead)
    threading.Timer(2, hangs.set).start()  # for transports that wait for their threads
    began = time.monotonic()
    client.transport.close(wait=0.1)
    assert time.monotonic() - began < 5
    assert {sent.reply().error for sent in dead} <= {ErrorClass.RESET, ErrorClass.DNS}


def test_receivers_that_hang_get_their_requests_at_once_and_delay_no_other(
    make_client: MakeClient, serve: Serve
) -> None:
    def hang(peer: Peer) -> None:
        peer.read_request()
        peer.pause()

    hanging = serve(hang)
    healthy = serve(answering(OK))
    client = make_client(concurrency=64, deadline=30.0)
    began = time.monotonic()
    hung = [client.start(hanging.url) for _ in range(63)]
    sent = [client.start(healthy.url) for _ in range(20)]
    assert [one.reply().status for one in sent] == [200] * 20
    eventually(lambda: len(hanging.requests) == 63)
    assert time.monotonic() - began < 2
    began = time.monotonic()
    for _ in range(100):
        assert client.post(healthy.url).status == 200
    assert time.monotonic() - began < 2
    assert not any(one.is_done for one in hung)


def test_no_request_arrives_twice_however_its_connection_dies(
    make_client: MakeClient, serve: Serve
) -> None:
    chance = random.Random(20)
    fates = [chance.randrange(8) for _ in range(1000)]

    def play(peer: Peer) -> None:
        while peer.read_request():
            fate = fates[len(server.requests) % len(fates)]
            if fate == 0:
                return  # read, and no answer: what a second try would be tempted by
            if fate == 1:
                peer.reset()
                return
            if fate == 2:
                peer.send(OK[:9])
                return
            peer.send(OK)
            if fate == 3:
                return

    server = serve(play)
    client = make_client(concurrency=8)
    sent = [client.start(server.url, body=f'{{"n":{n}}}'.encode()) for n in range(400)]
    replies = [one.reply() for one in sent]
    arrived = Counter(re.findall(rb"\d+\}$", b"\n".join(server.requests), re.MULTILINE))
    assert len(arrived) > 350
    assert set(arrived.values()) == {1}
    failed = [reply for reply in replies if reply.status is None]
    assert 50 < len(failed) < 300
    assert {reply.error for reply in failed} == {ErrorClass.RESET}
    assert any(reply.detail["reused"] for reply in failed)


THOUSAND = """
    import resource, socket, threading, uuid
    from ipaddress import ip_network
    from fencepost.model import Lease, Outgoing
    from worker.resolver import Resolver
    from worker.transport.curl import CurlTransport

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    loopback = (ip_network("127.0.0.0/8"),)
    transport = CurlTransport(
        Resolver(allow_networks=loopback), deadline=60, connect=30, concurrency=1000,
        allow_networks=loopback, allow_http=True,
    )
    replies, accepted, all_there = [], [], threading.Event()
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)

    def accept():
        while len(accepted) < 1000:
            connection, _ = listener.accept()
            connection.recv(10)
            accepted.append(connection)
        all_there.set()

    threading.Thread(target=accept, daemon=True).start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    for number in range(1000):
        outgoing = Outgoing(Lease(uuid.uuid4(), "w", 1), url, (), b"x" * 10_000)
        transport.send(outgoing, lambda _, reply: replies.append(reply))
    assert all_there.wait(50)
    assert not replies
    threads = threading.active_count()
    for connection in accepted:
        connection.sendall(b"HTTP/1.1 204 No Content\\r\\n\\r\\n")
    transport.close(wait=30)
    statuses = {reply.status for reply in replies}
    # Not ru_maxrss, which begins with the size of the process that started this one.
    (peak,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    megabytes = int(peak.split()[1]) // 1024
    print(len(replies), statuses, threads, megabytes)
"""


def test_a_thousand_requests_hang_in_one_process_and_few_megabytes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(THOUSAND)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"1000 \{204\} (\d+) (\d+)\n", done.stdout)
    assert found is not None, done.stdout
    threads, megabytes = map(int, found.groups())
    assert threads <= 3
    assert megabytes < 250
