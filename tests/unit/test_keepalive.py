"""Idle connections are few, young and clean."""

from __future__ import annotations

import time

from worker.transport.keepalive import IdleConnections

HERE, THERE = ("http", "here.test", 80), ("https", "there.test", 443)


class Line:
    """Stands in for a connection."""

    def __init__(self, *, age: float = 0, is_connected: bool = True) -> None:
        self.opened_at = time.monotonic() - age
        self.is_connected = is_connected
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_the_one_used_last_is_taken_first() -> None:
    idle = IdleConnections(limit=8)
    old, new = Line(), Line()
    idle.put(HERE, old)
    idle.put(HERE, new)
    assert idle.take(THERE) is None
    assert [idle.take(HERE), idle.take(HERE), idle.take(HERE)] == [new, old, None]
    assert not old.is_closed


def test_beyond_the_limit_the_one_that_waited_longest_is_closed() -> None:
    idle = IdleConnections(limit=2)
    lines = [Line() for _ in range(3)]
    for origin, line in zip([HERE, THERE, HERE], lines, strict=True):
        idle.put(origin, line)
    assert [line.is_closed for line in lines] == [True, False, False]
    assert len(idle) == 2
    assert [idle.take(HERE), idle.take(HERE), idle.take(THERE)] == [lines[2], None, lines[1]]


def test_a_connection_that_is_old_or_was_closed_is_passed_over() -> None:
    idle = IdleConnections(limit=8, max_age=30)
    lines = [Line(age=29), Line(age=31), Line(is_connected=False)]
    for line in lines:
        idle.put(HERE, line)
    assert idle.take(HERE) is lines[0]
    assert [line.is_closed for line in lines] == [False, True, True]


def test_what_has_waited_too_long_is_swept_out() -> None:
    idle, patient = IdleConnections(limit=8, max_idle=0), IdleConnections(limit=8, max_idle=60)
    lines = [Line(), Line(), Line()]
    idle.put(HERE, lines[0])
    idle.put(THERE, lines[1])
    patient.put(HERE, lines[2])
    idle.sweep()
    patient.sweep()
    assert [line.is_closed for line in lines] == [True, True, False]
    assert (len(idle), len(patient)) == (0, 1)
    assert idle.take(HERE) is None


def test_after_the_end_nothing_is_kept() -> None:
    idle = IdleConnections(limit=8)
    lines = [Line(), Line()]
    idle.put(HERE, lines[0])
    idle.close()
    idle.put(HERE, lines[1])
    assert [line.is_closed for line in lines] == [True, True]
    assert len(idle) == 0
