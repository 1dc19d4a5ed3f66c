"""What this machine lacks is no fault of the receiver, and says so."""

from __future__ import annotations

import os
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fencepost.model import ErrorClass
from peers import OK, answering
from trials import MakeClient, Serve


@contextmanager
def no_descriptor_left(*, but: int = 0) -> Iterator[None]:
    """Take every descriptor there is, up to a low limit, and give some back."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.dup(0)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 20, hard))
    try:
        while True:
            try:
                taken.append(os.dup(0))
            except OSError:
                break
        for _ in range(but):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)


@pytest.mark.parametrize("left", [0, 1])
def test_no_descriptor_for_a_connection(make_client: MakeClient, serve: Serve, left: int) -> None:
    server = serve(answering(OK))
    client = make_client()
    with no_descriptor_left(but=left):
        reply = client.post(server.url)
    assert (reply.status, reply.error) == (None, ErrorClass.LOCAL_ERROR)
    assert server.requests == []
    assert client.post(server.url).status == 200


def test_no_descriptor_for_a_look_up(make_client: MakeClient) -> None:
    def look_up() -> list[str]:
        # What glibc makes of EMFILE: it cannot read its files, and says so in this way.
        with socket.socket():
            pass
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    client = make_client(names={"any.test": look_up})
    assert client.post("https://any.test/").error is ErrorClass.DNS
    client = make_client(names={"any.test": look_up})
    with no_descriptor_left():
        reply = client.post("https://any.test/")
    assert (reply.status, reply.error) == (None, ErrorClass.LOCAL_ERROR)


def test_no_thread_to_send_with(
    make_client: MakeClient, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    server = serve(answering(OK))
    client = make_client()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        sent = client.start(server.url)
        reply = sent.reply()
    assert (reply.status, reply.error) == (None, ErrorClass.LOCAL_ERROR)
    assert server.connections == 0
    assert client.post(server.url).status == 200


def test_no_thread_to_look_up_with(
    make_client: MakeClient, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(answering(OK))
    client = make_client(names={"any.test": ["127.0.0.1"]}, concurrency=1)
    assert client.post(server.url).status == 200  # its thread is there

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        reply = client.post("https://any.test/")
    assert (reply.status, reply.error) == (None, ErrorClass.LOCAL_ERROR)
