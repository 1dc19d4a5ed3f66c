from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection

from factories import pass_time
from fencepost import passwords
from fencepost.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    NotInTransactionError,
)
from fencepost.records import User
from fencepost.store import logins, people, tokens
from fencepost.store.actions import list_actions
from journeys import acting_as

ACTOR = "cli root"
PASSWORD = "correct horse battery"
HASH = passwords.hash_password(PASSWORD)
HERE = "192.0.2.7"


@pytest.fixture
def db(superuser: Connection[Any]) -> Iterator[Connection[Any]]:
    with superuser.transaction(force_rollback=True), acting_as(superuser, "dashboard"):
        yield superuser


def add(db: Connection[Any], name: str = "Dana", role: str = "admin") -> User:
    return people.add_user(db, name, password_hash=HASH, role=role, actor=ACTOR)


def wait(db: Connection[Any], seconds: float) -> None:
    db.execute("RESET ROLE")
    pass_time(db, seconds)
    db.execute("SET LOCAL ROLE fencepost_dashboard")


# passwords


def test_a_password_is_kept_as_an_argon2id_hash_and_nothing_else() -> None:
    assert HASH.startswith("$argon2id$")
    assert passwords.is_password(PASSWORD, HASH)
    assert not passwords.is_password(PASSWORD + " ", HASH)
    assert not passwords.is_password(PASSWORD, None)
    assert not passwords.is_password("", None)
    assert not passwords.is_password(PASSWORD, "not a hash")


@pytest.mark.parametrize("password", ["", "short", "x" * 1025, "é" * 513])
def test_a_new_password_has_limits(password: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        passwords.hash_password(password)
    assert caught.value.field == "password"


def test_a_huge_or_odd_password_is_merely_wrong() -> None:
    assert not passwords.is_password("x" * 1_000_000, HASH)
    assert not passwords.is_password("\ud800" * 20, HASH)


def test_nobody_knows_the_password_of_an_account_entered_by_link() -> None:
    assert passwords.hash_nothing() != passwords.hash_nothing()


# users


def test_a_user_is_added_once_whatever_the_letters_look_like(db: Connection[Any]) -> None:
    found = add(db, " Dana  Scully ")
    assert found.name == "Dana Scully"
    for alike in ("dana scully", "DANA SCULLY", "\uff24\uff41na Scully"):
        assert people.find_user(db, alike) == found
        with pytest.raises(ConflictError, match="already"):
            add(db, alike)
    assert people.list_users(db) == [found]


@pytest.mark.parametrize("name", ["", " ", "a\0b", "x" * 65, "\ud800", "a\x1b[0m"])
def test_a_name_is_one_short_line(db: Connection[Any], name: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        add(db, name)
    assert caught.value.field == "name"
    with pytest.raises(NotFoundError):
        people.find_user(db, name)


def test_a_role_is_one_of_three(db: Connection[Any]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        add(db, role="root")
    assert caught.value.field == "role"


def test_the_last_admin_stays_one(db: Connection[Any]) -> None:
    add(db, "dana")
    add(db, "eve", role="operator")
    acts: list[Callable[[], object]] = [
        lambda: people.set_role(db, "dana", "viewer", actor=ACTOR),
        lambda: people.disable_user(db, "dana", actor=ACTOR),
    ]
    for act in acts:
        with pytest.raises(ConflictError, match="last admin"):
            act()
    assert people.set_role(db, "dana", "admin", actor=ACTOR).role == "admin"
    people.set_role(db, "eve", "admin", actor=ACTOR)
    assert people.set_role(db, "dana", "viewer", actor=ACTOR).role == "viewer"
    with pytest.raises(ConflictError, match="last admin"):
        people.disable_user(db, "eve", actor=ACTOR)
    people.set_role(db, "dana", "admin", actor=ACTOR)
    assert people.disable_user(db, "eve", actor=ACTOR).disabled_at is not None
    with pytest.raises(ConflictError, match="last admin"):
        people.set_role(db, "dana", "operator", actor=ACTOR)
    assert people.enable_user(db, "eve", actor=ACTOR).disabled_at is None


def test_two_admins_who_demote_each_other_leave_one(superuser_url: str) -> None:
    with psycopg.connect(superuser_url) as one, psycopg.connect(superuser_url) as other:
        add(one, "dana")
        add(one, "eve")
        one.commit()
        people.set_role(one, "eve", "viewer", actor=ACTOR)
        other.execute("SET lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            people.set_role(other, "dana", "viewer", actor=ACTOR)
        other.rollback()
        one.commit()
        with pytest.raises(ConflictError):
            people.set_role(other, "dana", "viewer", actor=ACTOR)


def test_an_unknown_user_is_not_found(db: Connection[Any]) -> None:
    with pytest.raises(NotFoundError):
        people.set_role(db, "nobody", "admin", actor=ACTOR)
    with pytest.raises(NotFoundError):
        people.disable_user(db, "nobody", actor=ACTOR)
    with pytest.raises(NotFoundError):
        people.set_password(db, "nobody", HASH, actor=ACTOR)


def test_what_is_done_to_users_is_logged_without_secrets(db: Connection[Any]) -> None:
    add(db)
    people.set_password(db, "dana", HASH, actor=ACTOR)
    actions = list_actions(db).rows
    assert [action.action for action in actions] == ["user.set_password", "user.add"]
    assert "argon2" not in str(actions)


# logging in


def test_the_right_password_opens_a_session(db: Connection[Any]) -> None:
    user = add(db)
    login = logins.log_in(db, "DANA", PASSWORD, address=HERE)
    assert (login.user, login.wait_seconds) == (user, 0)
    assert login.session is not None
    assert logins.read_session(db, login.session) == user
    assert login.session not in repr(login)
    stored = db.execute("SELECT token_hash FROM webhook_sessions").fetchall()
    assert stored == [(hashlib.sha256(login.session.encode()).digest(),)]


@pytest.mark.parametrize(
    ("name", "password"),
    [("dana", "wrong"), ("nobody", PASSWORD), ("", ""), ("dana", "x" * 2000), ("\0", "\ud800")],
)
def test_a_wrong_name_and_a_wrong_password_look_alike(
    db: Connection[Any], name: str, password: str
) -> None:
    add(db)
    assert logins.log_in(db, name, password, address=HERE) == logins.Login()


def test_a_disabled_user_is_not_let_in(db: Connection[Any]) -> None:
    add(db, "root")
    add(db)
    people.disable_user(db, "dana", actor=ACTOR)
    assert logins.log_in(db, "dana", PASSWORD, address=HERE).user is None


def test_failures_of_a_name_double_the_wait_from_any_address(db: Connection[Any]) -> None:
    add(db)
    for n in range(5):
        assert logins.log_in(db, "dana", "wrong", address=f"198.51.{n}.1").wait_seconds == 0
    assert logins.log_in(db, "dana", PASSWORD, address="203.0.113.1").wait_seconds == 1
    wait(db, 1.5)
    assert logins.log_in(db, "dana", "wrong", address="203.0.113.1").wait_seconds == 0
    assert logins.log_in(db, "dana", PASSWORD, address="203.0.113.1").wait_seconds == 2
    for past in (100, 200, 300, 400, 500, 600, 700):
        wait(db, past)
        assert logins.log_in(db, "Dana", "wrong", address="203.0.113.1").wait_seconds == 0
    assert logins.log_in(db, "dana", PASSWORD, address="203.0.113.1").wait_seconds == 60
    wait(db, 761)
    assert logins.log_in(db, "dana", PASSWORD, address="203.0.113.1").user is not None
    assert logins.log_in(db, "dana", "wrong", address="203.0.113.1").wait_seconds == 0


def test_a_name_that_does_not_exist_is_throttled_alike(db: Connection[Any]) -> None:
    waits = [logins.log_in(db, "ghost", "x", address=None).wait_seconds for _ in range(6)]
    assert waits == [0, 0, 0, 0, 0, 1]


def test_failures_of_a_network_count_together_over_all_names(
    db: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "is_password", lambda *_: False)  # its time is not the point here
    for n in range(20):
        address = f"2001:db8:1:2::{n}"
        assert logins.log_in(db, f"user{n}", "x", address=address).wait_seconds == 0
    assert logins.log_in(db, "fresh", "x", address="2001:db8:1:2:ffff::1").wait_seconds == 1
    assert logins.log_in(db, "fresh", "x", address="2001:db8:1:3::1").wait_seconds == 0
    counted = db.execute(
        "SELECT failures FROM webhook_login_failures WHERE subject = 'name fresh'"
    ).fetchall()
    assert counted == [(1,)]


def test_a_login_does_not_wash_its_network_clean(db: Connection[Any]) -> None:
    add(db)
    for _ in range(3):
        logins.log_in(db, "ghost", "x", address=HERE)
    logins.log_in(db, "dana", PASSWORD, address="192.0.2.200")
    failures = db.execute(
        "SELECT failures FROM webhook_login_failures WHERE subject = 'network 192.0.2.0/24'"
    ).fetchall()
    assert failures == [(3,)]


def test_failures_are_forgotten_after_an_hour(db: Connection[Any]) -> None:
    add(db)
    for _ in range(5):
        logins.log_in(db, "dana", "wrong", address=HERE)
    wait(db, 3601)
    assert logins.log_in(db, "dana", "wrong", address=HERE).wait_seconds == 0
    assert logins.log_in(db, "dana", "wrong", address=HERE).wait_seconds == 0


# sessions and links


def test_a_session_ends_when_it_idles_and_after_half_a_day(db: Connection[Any]) -> None:
    user = add(db)
    session = logins.open_session(db, user.id)
    wait(db, 29 * 60)
    assert logins.read_session(db, session) == user
    wait(db, 58 * 60)
    assert logins.read_session(db, session) == user
    wait(db, 89 * 60)
    assert logins.read_session(db, session) is None
    session = logins.open_session(db, user.id)
    for minutes in range(110, 89 + 12 * 60, 20):
        wait(db, minutes * 60)
        assert logins.read_session(db, session) == user
    wait(db, (89 + 12 * 60 + 1) * 60)
    assert logins.read_session(db, session) is None


def test_a_session_has_the_role_of_now_and_ends_with_the_account(db: Connection[Any]) -> None:
    add(db, "root")
    user = add(db, "eve")
    session = logins.open_session(db, user.id)
    people.set_role(db, "eve", "viewer", actor=ACTOR)
    found = logins.read_session(db, session)
    assert found is not None
    assert found.role == "viewer"
    people.disable_user(db, "eve", actor=ACTOR)
    people.enable_user(db, "eve", actor=ACTOR)
    assert logins.read_session(db, session) is None


def test_logging_out_and_a_new_password_end_sessions(db: Connection[Any]) -> None:
    user = add(db)
    one, other = logins.open_session(db, user.id), logins.open_session(db, user.id)
    logins.close_session(db, one)
    assert logins.read_session(db, one) is None
    assert logins.read_session(db, other) == user
    people.set_password(db, "dana", HASH, actor=ACTOR)
    assert logins.read_session(db, other) is None


@pytest.mark.parametrize("token", ["", "garbage", "\0", "\ud800", "x" * 5000])
def test_a_made_up_session_is_nobodys(db: Connection[Any], token: str) -> None:
    assert logins.read_session(db, token) is None
    assert logins.use_login_link(db, token) is None


def test_a_login_link_is_good_once_and_not_for_long(db: Connection[Any]) -> None:
    user = add(db)
    link = logins.make_login_link(db, user.id)
    assert logins.use_login_link(db, link) == user
    assert logins.use_login_link(db, link) is None
    late = logins.make_login_link(db, user.id, life=timedelta(minutes=5))
    wait(db, 301)
    assert logins.use_login_link(db, late) is None


def test_what_has_expired_is_dropped_at_the_next_login(db: Connection[Any]) -> None:
    user = add(db)
    logins.open_session(db, user.id)
    logins.make_login_link(db, user.id)
    logins.log_in(db, "ghost", "x", address=HERE)
    wait(db, 13 * 3600)
    logins.open_session(db, user.id)
    counts = db.execute(
        "SELECT (SELECT count(*) FROM webhook_sessions),"
        " (SELECT count(*) FROM webhook_login_links),"
        " (SELECT count(*) FROM webhook_login_failures)"
    ).fetchone()
    assert counts == (1, 0, 0)


# tokens


def test_a_token_is_known_by_its_text_alone(db: Connection[Any]) -> None:
    made, text = tokens.create_token(db, "ci", role="operator", actor=ACTOR)
    assert len(text) == len("fp_") + 32 + 1 + 43
    found = tokens.read_token(db, text)
    assert found is not None
    assert (found.id, found.name, found.role) == (made.id, "ci", "operator")
    assert text[-43:] not in str(db.execute("SELECT * FROM webhook_api_tokens").fetchall())
    assert text[-43:] not in str(list_actions(db).rows)
    other, _ = tokens.create_token(db, "other", role="viewer", actor=ACTOR)
    for wrong in (
        "", "fp_", text[:-1], text + "x", text.upper(), f"fp_{other.id.hex}_{text[-43:]}",
        "Bearer " + text, text.replace("_", "-"), "fp_" + "0" * 32 + "_" + "A" * 43, "\0" * 79,
    ):  # fmt: skip
        assert tokens.read_token(db, wrong) is None, wrong


def test_a_token_expires_and_is_revoked(db: Connection[Any]) -> None:
    made, text = tokens.create_token(db, "ci", role="viewer", life=timedelta(days=1), actor=ACTOR)
    assert made.expires_at is not None
    wait(db, 86_400 + 1)
    assert tokens.read_token(db, text) is None
    forever, text = tokens.create_token(db, "ci", role="viewer", actor=ACTOR)
    assert tokens.revoke_token(db, forever.id, actor=ACTOR).revoked_at is not None
    assert tokens.read_token(db, text) is None
    for unknown in (forever.id, uuid4()):
        with pytest.raises(NotFoundError):
            tokens.revoke_token(db, unknown, actor=ACTOR)
    assert [one.id for one in tokens.list_tokens(db)] == [forever.id, made.id]


def test_its_use_is_written_once_a_minute(db: Connection[Any]) -> None:
    _, text = tokens.create_token(db, "ci", role="viewer", actor=ACTOR)

    def used() -> object:
        tokens.read_token(db, text)
        return tokens.list_tokens(db)[0].last_used_at

    first = used()
    assert first is not None
    assert used() == first
    wait(db, 61)
    assert used() != first


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("name", {"name": ""}),
        ("role", {"role": "root"}),
        ("life", {"life": timedelta(0)}),
        ("life", {"life": timedelta(days=4000)}),
    ],
)
def test_a_bad_token_is_refused(db: Connection[Any], field: str, fields: dict[str, Any]) -> None:
    wanted: dict[str, Any] = {"name": "ci", "role": "viewer", "actor": ACTOR, **fields}
    with pytest.raises(InvalidInputError) as caught:
        tokens.create_token(db, wanted.pop("name"), **wanted)
    assert caught.value.field == field


def test_changes_need_a_transaction(db_url: str) -> None:
    with psycopg.connect(db_url, autocommit=True) as conn:
        with pytest.raises(NotInTransactionError):
            add(conn)
        with pytest.raises(NotInTransactionError):
            logins.log_in(conn, "dana", PASSWORD, address=None)
        with pytest.raises(NotInTransactionError):
            tokens.create_token(conn, "ci", role="viewer", actor=ACTOR)
