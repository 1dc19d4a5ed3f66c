"""An answer reads the same however its bytes come, and as ``http.client`` reads it."""

from __future__ import annotations

import http.client
import io
import socket
from collections.abc import Iterator, Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.transport.answer_reader import AnswerReader

ANSWERS = [
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.0 200 OK\nContent-Length: 2\n\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
    b"HTTP/1.1 503 Busy\r\nA: 1\r\nB: 2\r\na: 3\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n9\r\n0123\n5678\r\n0\n\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\nT: x\r\nU: y\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: x\r\n\r\n",
]
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"


def read(pieces: Sequence[bytes], *, ends: bool = False) -> AnswerReader:
    reader = AnswerReader()
    for piece in pieces:
        reader.feed(piece)
    if ends:
        reader.end()
    return reader


def described(reader: AnswerReader) -> tuple[object, ...]:
    head = reader.head
    assert head is not None
    return (
        head.status,
        head.headers,
        reader.body,
        reader.size,
        reader.is_whole,
        reader.may_be_followed,
    )


@pytest.mark.parametrize("answer", ANSWERS)
@given(data=st.data())
def test_the_same_bytes_read_the_same_in_any_pieces(answer: bytes, data: st.DataObject) -> None:
    whole = INTERIM + answer
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1))))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert described(read(pieces)) == described(read([answer]))


class Wire:
    """Stands in for a socket that ``http.client`` reads from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _: str) -> io.BytesIO:
        return io.BytesIO(self._data)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_reads_as_the_standard_library_reads_it(answer: bytes) -> None:
    response = http.client.HTTPResponse(cast("socket.socket", Wire(answer)))
    response.begin()
    reader = read([answer])
    assert reader.head is not None
    assert reader.head.status == response.status
    assert sorted(reader.head.headers) == sorted(response.getheaders())
    assert reader.body == response.read()
    assert reader.is_whole


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_comes_after_an_answer_is_noticed(answer: bytes) -> None:
    clean = read([answer]).may_be_followed
    assert clean is (b"HTTP/1.0" not in answer and b"close" not in answer and b"304" not in answer)
    assert not read([answer + b"x"]).may_be_followed
    assert not read([answer, b"x"]).may_be_followed


def whole_and_cut() -> Iterator[tuple[bytes, int]]:
    for answer in ANSWERS:
        yield from ((answer, cut) for cut in range(len(answer)))


def test_an_answer_that_ends_too_early_is_never_whole() -> None:
    for answer, cut in whole_and_cut():
        reader = read([answer[:cut]] if cut else [])
        with pytest.raises((http.client.HTTPException, ConnectionResetError)):
            reader.end()
        assert not reader.is_whole


def test_a_body_without_a_length_is_whole_at_the_end_of_the_stream_only() -> None:
    answer = b"HTTP/1.1 200 OK\r\n\r\nabc"
    assert not read([answer]).is_whole
    ended = read([answer], ends=True)
    assert (ended.is_whole, ended.body, ended.may_be_followed) == (True, b"abc", False)


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 1 << 20])
def test_of_a_long_body_no_more_counts_than_is_wanted(size: int) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode()
    reader = read([head, *[b"x" * 1000] * (size // 1000), b"x" * (size % 1000)])
    assert reader.is_enough
    assert reader.size == min(size, 65_536)
    assert reader.body == b"x" * 4096


def test_a_dripping_head_is_searched_once_not_over_and_over() -> None:
    reader = AnswerReader()
    reader.feed(b"HTTP/1.1 200 OK\r\n")
    line = b"X: " + b"y" * 60_000
    for byte in line * 4:  # seconds, were the whole head searched for each byte
        reader.feed(bytes([byte]))
    with pytest.raises(http.client.LineTooLong):
        reader.feed(line * 2)


@pytest.mark.parametrize(
    "body",
    [
        b"ZZ\r\n",
        b"-1\r\n",
        b"\r\n",
        b"3\r\nabcd\r\n",
        b"3 4\r\n",
        b"1" * 17 + b"\r\n",
        b"0x3\r\nabc\r\n",
        b"1" * 70_000,
        b"0\r\n" + b"T: x\r\n" * 60_000,
    ],
)
def test_chunks_that_make_no_sense_are_an_error(body: bytes) -> None:
    reader = read([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"])
    with pytest.raises(http.client.HTTPException):
        reader.feed(body)
    assert reader.body.startswith(b"ok")
    assert not reader.is_whole


def test_the_status_line_is_known_before_the_head_is_whole() -> None:
    reader = read([b"HTTP/1.1 20", b"0 OK\r\nX: "])
    assert (reader.head, reader.status_seen) == (None, 200)
    interim = read([INTERIM + b"HTTP/1.1"])
    assert (interim.head, interim.status_seen) == (None, None)
