"""Every trial gets a client of each transport, and raw servers to send to."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme

from peers import Peer, PeerServer
from trials import (
    LOOPBACK,
    TRANSPORTS,
    Client,
    MakeClient,
    Names,
    Serve,
    resolving,
    server_context,
)
from worker.resolver import Resolver


@pytest.fixture(params=TRANSPORTS)
def make_client(request: pytest.FixtureRequest) -> Iterator[MakeClient]:
    with ExitStack() as stack:

        def make(
            *, names: Names | None = None, resolver: Resolver | None = None, **options: object
        ) -> Client:
            chosen: dict[str, object] = {
                "deadline": 10.0,
                "connect": 5.0,
                "concurrency": 8,
                "allow_networks": LOOPBACK,
                "allow_http": True,
                **options,
            }
            made = TRANSPORTS[request.param](resolver or resolving(names or {}), **chosen)
            client = Client(made)
            stack.callback(client.close)
            return client

        yield make


@pytest.fixture
def client(make_client: MakeClient) -> Client:
    return make_client()


@pytest.fixture
def hasty(make_client: MakeClient) -> Client:
    """A client whose deadline is half a second, to be hit."""
    return make_client(deadline=0.5, connect=0.4)


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(play: Callable[[Peer], None], *, tls: ssl.SSLContext | None = None) -> PeerServer:
            return stack.enter_context(PeerServer(play, tls=tls))

        yield start


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def trusted(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that a client is given to trust the test's authority."""
    path = tmp_path_factory.mktemp("tls") / "authority.pem"
    authority.cert_pem.write_to_path(path)
    return path


@pytest.fixture(scope="session")
def valid(authority: trustme.CA) -> ssl.SSLContext:
    """What a server uses whose certificate is in order, for 127.0.0.1 and receiver.test."""
    return server_context(authority.issue_cert("127.0.0.1", "receiver.test"))
