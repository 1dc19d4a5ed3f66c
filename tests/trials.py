"""Sending and waiting, for trials that run against every transport named here."""

from __future__ import annotations

import socket
import ssl
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_network
from pathlib import Path
from typing import Protocol

import trustme

from fencepost.model import Lease, Outgoing, Reply
from peers import Peer, PeerServer
from worker.resolver import Resolver
from worker.transport.base import Transport
from worker.transport.curl import CurlTransport
from worker.transport.guard import verifying_context
from worker.transport.requests import RequestsTransport

LOOPBACK = (ip_network("127.0.0.0/8"),)
PATIENCE = 20.0
"""Seconds after which an answer that should have come long ago fails its test."""

Names = Mapping[str, Sequence[str] | Callable[[], Sequence[str]]]


@lru_cache
def _tls(trust: Path | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=trust) if trust else verifying_context()


def requests_transport(
    resolver: Resolver, *, trust: Path | None = None, **options: object
) -> Transport:
    return RequestsTransport(resolver, tls=_tls(trust), **options)  # type: ignore[arg-type]


TRANSPORTS: Mapping[str, Callable[..., Transport]] = {
    "requests": requests_transport,
    "curl": CurlTransport,
}


class Sent:
    """A request on its way, and its reply when it is there."""

    def __init__(self, outgoing: Outgoing) -> None:
        self.outgoing = outgoing
        self._replies: list[Reply] = []
        self._is_done = threading.Event()

    def done(self, outgoing: Outgoing, reply: Reply) -> None:
        assert outgoing is self.outgoing
        self._replies.append(reply)
        self._is_done.set()

    @property
    def is_done(self) -> bool:
        return self._is_done.is_set()

    def reply(self) -> Reply:
        assert self._is_done.wait(PATIENCE), "no reply"
        (reply,) = self._replies
        return reply


class Client:
    """Sends through a transport and waits."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._sent: list[Sent] = []

    def start(
        self, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b'{"a":1}'
    ) -> Sent:
        lease = Lease(uuid.uuid4(), "worker", 1)
        ours = {"User-Agent": "Fencepost/test", "Content-Type": "application/json"}
        sent = Sent(Outgoing(lease, url, tuple((ours | dict(headers or {})).items()), body))
        self._sent.append(sent)
        self.transport.send(sent.outgoing, sent.done)
        return sent

    def post(
        self, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b'{"a":1}'
    ) -> Reply:
        return self.start(url, headers=headers, body=body).reply()

    def close(self) -> None:
        self.transport.close(wait=0)
        for sent in self._sent:
            sent.reply()


class MakeClient(Protocol):
    """Makes a client; what is left out allows loopback and plain http.

    ``trust`` is a file with the certificate of the authority to trust instead of the world's.
    """

    def __call__(
        self, *, names: Names | None = None, resolver: Resolver | None = None, **options: object
    ) -> Client: ...


class Serve(Protocol):
    """Starts a raw server that lives as long as the test."""

    def __call__(
        self, play: Callable[[Peer], None], *, tls: ssl.SSLContext | None = None
    ) -> PeerServer: ...


def resolving(names: Names, **options: object) -> Resolver:
    """Make a resolver that knows these names and no other."""

    def answer(host: str) -> Sequence[str]:
        if host not in names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        found = names[host]
        return found() if callable(found) else found

    return Resolver(**{"allow_networks": LOOPBACK, "look_up": answer, **options})  # type: ignore[arg-type]


def server_context(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context
