from __future__ import annotations

import pytest

from worker.turns import Turns


def test_all_are_called_and_the_most_eager_decides() -> None:
    called: list[str] = []

    def step(name: str, wait: float) -> float:
        called.append(name)
        return wait

    turns = Turns(lambda: step("a", 10.0), lambda: step("b", 0.5))
    assert turns() == 0.5
    assert called == ["a", "b"]


def test_one_that_always_fails_does_not_keep_the_others_from_their_turn() -> None:
    called: list[str] = []

    def fails() -> float:
        called.append("fails")
        raise RuntimeError

    def works() -> float:
        called.append("works")
        return 1.0

    turns = Turns(fails, works)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            turns()
    assert called == ["fails", "works", "fails"]
