"""Names become addresses: shared, bounded and remembered for a moment."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.errors import FencepostError
from waiting import eventually
from worker.local_faults import LocalFaultError
from worker.resolver import AddressForbiddenError, Resolver
from worker.system_lookup import LookupFailedError

PUBLIC = ["1.1.1.1", "2606:4700::1111"]


class Names:
    """Stands in for the system's look-up: answers, fails or hangs by name."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go_on = threading.Event()

    def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        if host.startswith("hang"):
            self.go_on.wait(30)
        if host.startswith("broken"):
            raise RuntimeError("of the test")
        if host.startswith("none"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        if host.startswith("memory"):
            raise socket.gaierror(socket.EAI_MEMORY, "Memory allocation failure")
        if host.startswith("long"):
            raise UnicodeError("label too long")
        return PUBLIC


@pytest.fixture
def names() -> Iterator[Names]:
    made = Names()
    yield made
    made.go_on.set()


def test_all_addresses_come_back_each_once(names: Names) -> None:
    assert Resolver(look_up=names).resolve("a.test", within=1) == tuple(PUBLIC)
    twice = Resolver(look_up=lambda _: PUBLIC * 2)
    assert twice.resolve("a.test", within=1) == tuple(PUBLIC)


def test_a_success_is_not_remembered(names: Names) -> None:
    resolver = Resolver(look_up=names)
    for _ in range(3):
        resolver.resolve("a.test", within=1)
    assert names.asked == ["a.test"] * 3


def test_a_failure_is_remembered_for_a_moment(names: Names) -> None:
    resolver = Resolver(look_up=names, remember=60)
    for _ in range(3):
        with pytest.raises(LookupFailedError, match="Name or service not known"):
            resolver.resolve("none.test", within=1)
    assert names.asked == ["none.test"]
    forgetful = Resolver(look_up=names, remember=0)
    for _ in range(3):
        with pytest.raises(LookupFailedError):
            forgetful.resolve("none.test", within=1)
    assert len(names.asked) == 4


@pytest.mark.parametrize(
    ("host", "error"),
    [
        ("none.test", LookupFailedError),
        ("long.test", LookupFailedError),
        ("broken.test", LookupFailedError),
        ("memory.test", LocalFaultError),
        ("127.0.0.1", AddressForbiddenError),
        ("localhost", AddressForbiddenError),
        ("::1", AddressForbiddenError),
    ],
)
def test_every_failure_has_its_class(names: Names, host: str, error: type[FencepostError]) -> None:
    with pytest.raises(error):
        Resolver(look_up=names).resolve(host, within=1)


def test_numbers_are_not_looked_up(names: Names) -> None:
    assert Resolver(look_up=names).resolve("1.1.1.1", within=1) == ("1.1.1.1",)
    assert names.asked == []


def test_a_forbidden_answer_names_the_address() -> None:
    resolver = Resolver(look_up=lambda _: ["1.1.1.1", "10.0.0.1"])
    with pytest.raises(AddressForbiddenError, match=r"a\.test leads to 10\.0\.0\.1, a private"):
        resolver.resolve("a.test", within=1)


def test_who_asks_for_the_same_host_shares_one_question(names: Names) -> None:
    resolver = Resolver(look_up=names)
    with ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(resolver.resolve, "hang.test", within=10) for _ in range(8)]
        eventually(lambda: names.asked == ["hang.test"])
        names.go_on.set()
        answers = {future.result() for future in asking}
    assert answers == {tuple(PUBLIC)}
    assert len(names.asked) < 8


def test_a_hanging_question_costs_its_budget_once(names: Names) -> None:
    resolver = Resolver(look_up=names, budget=0.1)
    for _ in range(50):  # 50 times the budget would be 5 s
        with pytest.raises(LookupFailedError, match="in time"):
            resolver.resolve("hang.test", within=5)
    assert names.asked == ["hang.test"]


def test_questions_are_bounded_and_a_place_that_comes_free_is_taken(names: Names) -> None:
    resolver = Resolver(look_up=names, max_lookups=2, budget=10)
    with ThreadPoolExecutor(3) as pool:
        hanging = [pool.submit(resolver.resolve, f"hang{n}.test", within=10) for n in range(2)]
        eventually(lambda: len(names.asked) == 2)
        with pytest.raises(LocalFaultError, match="too many"):
            resolver.resolve("late.test", within=0.05)
        waiting = pool.submit(resolver.resolve, "a.test", within=10)
        names.go_on.set()
        assert waiting.result() == tuple(PUBLIC)
        for future in hanging:
            future.result()


def test_names_that_hung_leave_half_of_the_threads_to_others(names: Names) -> None:
    resolver = Resolver(look_up=names, max_lookups=4, budget=0.05)
    hosts = [f"hang{number}.test" for number in range(4)]
    for host in hosts:
        with pytest.raises(LookupFailedError):
            resolver.resolve(host, within=1)
    names.go_on.set()
    eventually(lambda: not resolver.open_lookups)
    names.go_on.clear()
    for host in hosts:  # known to hang: only two of them may try
        with pytest.raises((LookupFailedError, LocalFaultError)):
            resolver.resolve(host, within=0.05)
    assert resolver.open_lookups == 2
    assert resolver.resolve("a.test", within=1) == tuple(PUBLIC)


def test_asking_without_waiting_tells_when_the_answer_is_there(names: Names) -> None:
    resolver, told = Resolver(look_up=names), threading.Event()
    lookup = resolver.begin("a.test", told.set)
    assert told.wait(10)
    assert resolver.finish(lookup) == tuple(PUBLIC)
    known = resolver.begin("1.1.1.1", told.set)
    assert known.is_answered.is_set()
    assert resolver.finish(known) == ("1.1.1.1",)


def test_who_leaves_before_the_question_was_asked_takes_it_along(names: Names) -> None:
    resolver = Resolver(look_up=names, max_lookups=1)
    hanging = resolver.begin("hang.test")
    eventually(lambda: names.asked == ["hang.test"])
    left = resolver.begin("left.test")
    stayed = resolver.begin("stayed.test")
    resolver.leave(left)
    with pytest.raises(LookupFailedError, match="in time"):
        resolver.finish(hanging)
    names.go_on.set()
    assert stayed.is_answered.wait(10)
    assert resolver.finish(stayed) == tuple(PUBLIC)
    assert names.asked == ["hang.test", "stayed.test"]


def test_a_question_that_waits_hears_that_no_thread_is_to_be_had(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver, told = Resolver(look_up=names, max_lookups=1), threading.Event()
    resolver.begin("hang.test")
    eventually(lambda: names.asked == ["hang.test"])
    waiting = resolver.begin("late.test", told.set)

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    names.go_on.set()
    assert told.wait(10)
    with pytest.raises(LocalFaultError, match="no thread"):
        resolver.finish(waiting)
