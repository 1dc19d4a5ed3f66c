"""Nothing is sent to a receiver that cannot prove who it is."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from fencepost.model import ErrorClass, Reply
from peers import OK, Peer, answering, answering_once
from trials import Client, MakeClient, Serve, server_context

PAST = datetime(2020, 1, 1, tzinfo=UTC)
SECRET = b'{"payload":"secret"}'


@pytest.fixture
def tls_client(make_client: MakeClient, trusted: Path) -> Client:
    return make_client(trust=trusted, names={"receiver.test": ["127.0.0.1"]})


def refused(reply: Reply) -> str:
    assert (reply.status, reply.error) == (None, ErrorClass.TLS)
    assert reply.message is not None
    return reply.message


def test_a_certificate_in_order_is_accepted_by_name_and_address(
    tls_client: Client, serve: Serve, valid: ssl.SSLContext
) -> None:
    names: list[str | None] = []
    valid.sni_callback = lambda _, name, __: names.append(name)
    server = serve(answering(OK), tls=valid)
    for host in ("receiver.test", "127.0.0.1"):
        first = tls_client.post(f"https://{host}:{server.port}/")
        again = tls_client.post(f"https://{host}:{server.port}/")
        assert (first.status, again.status) == (200, 200)
        assert {"tls_ms", "connect_ms", "dns_ms", "first_byte_ms"} <= first.detail.keys()
        assert (first.detail["reused"], again.detail["reused"]) == (False, True)
    assert names == ["receiver.test", None]
    assert f"Host: receiver.test:{server.port}\r\n".encode() in server.requests[0]


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("expired", "certificate has expired"),
        ("wrong name", "Hostname mismatch"),
        ("self-signed", "unable to get local issuer certificate"),
    ],
)
def test_a_certificate_out_of_order_is_refused(
    tls_client: Client, serve: Serve, authority: trustme.CA, case: str, why: str
) -> None:
    certificate = {
        "expired": lambda: authority.issue_cert(
            "receiver.test", not_before=PAST, not_after=PAST + timedelta(days=1)
        ),
        "wrong name": lambda: authority.issue_cert("other.test"),
        "self-signed": lambda: trustme.CA().issue_cert("receiver.test"),
    }[case]()
    server = serve(answering(OK), tls=server_context(certificate))
    message = refused(tls_client.post(f"https://receiver.test:{server.port}/", body=SECRET))
    assert why in message
    assert server.requests == []


def test_the_authorities_of_the_world_do_not_vouch_for_a_test(
    make_client: MakeClient, serve: Serve, valid: ssl.SSLContext
) -> None:
    server = serve(answering(OK), tls=valid)
    refused(make_client().post(server.url, body=SECRET))
    assert server.requests == []


def test_old_versions_of_tls_are_refused(
    tls_client: Client, serve: Serve, authority: trustme.CA
) -> None:
    context = server_context(authority.issue_cert("receiver.test"))
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1
    server = serve(answering(OK), tls=context)
    refused(tls_client.post(f"https://receiver.test:{server.port}/", body=SECRET))
    assert server.requests == []


def test_no_common_cipher_is_refused(
    tls_client: Client, serve: Serve, authority: trustme.CA
) -> None:
    context = server_context(authority.issue_cert("receiver.test"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")  # the test's keys are elliptic curves
    server = serve(answering(OK), tls=context)
    refused(tls_client.post(f"https://receiver.test:{server.port}/", body=SECRET))
    assert server.requests == []


@pytest.mark.parametrize(
    "words", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.9\r\n", b"\x00" * 100]
)
def test_what_does_not_speak_tls_gets_no_payload(
    tls_client: Client, serve: Serve, words: bytes
) -> None:
    heard = b""

    def play(peer: Peer) -> None:
        nonlocal heard
        peer.send(words)
        while piece := peer.read_some(4096):
            heard += piece

    server = serve(play)
    refused(tls_client.post(f"https://receiver.test:{server.port}/", body=SECRET))
    assert SECRET not in heard
    assert b"POST" not in heard


@pytest.mark.parametrize("ending", ["close", "reset"])
def test_a_handshake_that_breaks_off_is_a_tls_failure(
    tls_client: Client, serve: Serve, ending: str
) -> None:
    def play(peer: Peer) -> None:
        peer.read_some(4096)
        if ending == "reset":
            peer.reset()

    refused(tls_client.post(f"https://receiver.test:{serve(play).port}/"))


def test_plain_http_to_a_tls_port_is_a_bad_response(
    client: Client, serve: Serve, valid: ssl.SSLContext
) -> None:
    server = serve(answering(OK), tls=valid)
    reply = client.post(f"http://127.0.0.1:{server.port}/")
    assert reply.status is None
    assert reply.error in {ErrorClass.BAD_RESPONSE, ErrorClass.RESET}


@pytest.mark.parametrize("drip", [b"", b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc" + b"\x00" * 10_000])
def test_a_handshake_that_hangs_or_drips_ends_in_time(
    make_client: MakeClient, trusted: Path, serve: Serve, drip: bytes
) -> None:
    def play(peer: Peer) -> None:
        peer.drip(drip)
        peer.pause()

    client = make_client(trust=trusted, deadline=5.0, connect=0.4)
    reply = client.post(f"https://127.0.0.1:{serve(play).port}/")
    assert (reply.status, reply.error) == (None, ErrorClass.TIMEOUT)
    assert 390 <= reply.latency_ms < 1500


def test_the_total_deadline_holds_within_tls(
    make_client: MakeClient, trusted: Path, serve: Serve, valid: ssl.SSLContext
) -> None:
    def play(peer: Peer) -> None:
        peer.read_request()
        peer.drip(b"HTTP/1.1 200 OK\r\nX-Drip: " + b"x" * 10_000)

    client = make_client(trust=trusted, deadline=0.5, connect=0.4)
    reply = client.post(f"https://127.0.0.1:{serve(play, tls=valid).port}/")
    assert (reply.status, reply.error) == (None, ErrorClass.TIMEOUT)
    assert 490 <= reply.latency_ms < 1500


def test_a_body_cut_within_tls_leaves_the_status(
    tls_client: Client, serve: Serve, valid: ssl.SSLContext
) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut"
    server = serve(answering_once(answer), tls=valid)
    reply = tls_client.post(f"https://receiver.test:{server.port}/")
    assert (reply.status, reply.body) == (200, b"cut")
    assert reply.message is not None


@pytest.mark.parametrize("size", [2, 1 << 16])
@pytest.mark.parametrize(
    "excess", [b"HTTP/1.1 500 Injected\r\nContent-Length: 0\r\n\r\n", b"x" * 15_000]
)
def test_bytes_after_an_answer_poison_nothing_within_tls(
    tls_client: Client, serve: Serve, valid: ssl.SSLContext, excess: bytes, size: int
) -> None:
    # In one record with the answer's end: what TLS has decrypted shows on no socket.
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode() + b"x" * size
    server = serve(answering(answer + excess), tls=valid)
    statuses = [tls_client.post(f"https://receiver.test:{server.port}/").status for _ in range(4)]
    assert statuses == [200] * 4
    assert len(server.requests) == 4
