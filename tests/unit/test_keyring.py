"""Keyrings refuse bad keys with a clear line and never show one."""

from __future__ import annotations

import base64

import pytest

from fencepost import sealing
from fencepost.errors import KeyUnavailableError, SettingsError, UndecryptableError
from fencepost.keyring import Keyring

KEY = base64.b64encode(bytes(range(32))).decode()
OTHER_KEY = base64.b64encode(bytes(range(32, 64))).decode()


def test_the_first_key_seals_and_all_open() -> None:
    old, both = Keyring.parse(f"old:{KEY}"), Keyring.parse(f"new:{OTHER_KEY}, old:{KEY}\n")
    assert both.key_ids == ("new", "old")
    assert both.open(old.seal(b"x", context=("a",)), context=("a",)) == b"x"
    with pytest.raises(KeyUnavailableError, match="new"):
        old.open(both.seal(b"x", context=("a",)), context=("a",))


def test_a_generated_keyring_parses_and_is_another_each_time() -> None:
    first, second = Keyring.generate(), Keyring.generate()
    assert first != second
    assert len(Keyring.parse(f"{first},{second}").key_ids) == 2


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "entry 1 must be id:base64key"),
        (KEY, "entry 1 must be id:base64key"),
        (f":{KEY}", "entry 1 must be id:base64key"),
        (f"a b:{KEY}", "entry 1 must be id:base64key"),
        (f"é:{KEY}", "entry 1 must be id:base64key"),
        (f"{'k' * 33}:{KEY}", "entry 1 must be id:base64key"),
        (f"a:{KEY},", "entry 2 must be id:base64key"),
        ("a:changeme", "key a must be base64 of exactly 32 bytes"),
        ("a:", "key a must be base64 of exactly 32 bytes"),
        (f"a:{KEY}!", "key a must be base64 of exactly 32 bytes"),
        (f"a:{KEY[:-2]}", "key a must be base64 of exactly 32 bytes"),
        ("a:" + base64.b64encode(bytes(range(31))).decode(), "exactly 32 bytes"),
        ("a:" + base64.b64encode(bytes(range(33))).decode(), "exactly 32 bytes"),
        ("a:" + base64.b64encode(bytes(32)).decode(), "key a is not random"),
        ("a:" + base64.b64encode(b"changeme" * 4).decode(), "key a is not random"),
        (f"a:{KEY},a:{OTHER_KEY}", "key a is given twice"),
        (f"a:{KEY},b:{KEY}", "key b has the key of another id"),
        ("aws-kms:alias/x", "AWS KMS"),
    ],
)
def test_a_bad_keyring_is_refused_without_quoting_keys(text: str, fault: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Keyring.parse(text, name="FENCEPOST_ENDPOINT_KEYS")
    assert fault in str(caught.value)
    assert str(caught.value).startswith("FENCEPOST_ENDPOINT_KEYS: ")
    for encoded in (KEY, OTHER_KEY, "changeme", base64.b64encode(bytes(32)).decode()):
        assert encoded not in str(caught.value)


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        Keyring.parse(f"a:short,?:{KEY},b:{KEY},b:{OTHER_KEY}")
    assert len(str(caught.value).splitlines()) == 3


def test_a_keyring_shows_ids_alone() -> None:
    keyring = Keyring.parse(f"new:{OTHER_KEY},old:{KEY}")
    assert repr(keyring) == str(keyring) == "Keyring(new, old)"


def test_a_fingerprint_verifies_after_rotation() -> None:
    mac = Keyring.parse(f"old:{KEY}").mac("invoice.paid", b"{}")
    both = Keyring.parse(f"new:{OTHER_KEY},old:{KEY}")
    assert both.verify_mac(mac, "invoice.paid", b"{}")
    assert both.mac("invoice.paid", b"{}") != mac
    assert not both.verify_mac(mac, "invoice.paid", b"{ }")
    assert not both.verify_mac(mac, "invoice.paid{", b"}")


def test_a_fingerprint_of_a_missing_key_is_not_judged() -> None:
    mac = Keyring.parse(f"old:{KEY}").mac("x")
    with pytest.raises(KeyUnavailableError, match="old"):
        Keyring.parse(f"new:{OTHER_KEY}").verify_mac(mac, "x")


@pytest.mark.parametrize("mac", [b"", b"\x00", b"\xff", b"\x03o d", b"\x02\xff\xfe" + bytes(32)])
def test_what_is_no_fingerprint_is_refused(mac: bytes) -> None:
    with pytest.raises(UndecryptableError):
        Keyring.parse(f"old:{KEY}").verify_mac(mac, "x")


def test_a_cut_fingerprint_does_not_verify() -> None:
    keyring = Keyring.parse(f"old:{KEY}")
    mac = keyring.mac("x")
    for end in range(4, len(mac)):
        assert not keyring.verify_mac(mac[:end], "x")


@pytest.mark.parametrize("lengths", [(1, 32), (32, 1), (32, 32)])
def test_the_head_alone_is_enough_to_wrap_anew(lengths: tuple[int, int]) -> None:
    old, new = (letter * length for letter, length in zip("on", lengths, strict=True))
    sealed = Keyring.parse(f"{old}:{KEY}").seal(b"x" * 100, context=("a",))
    assert sealing.HEAD_MAX == 98, "as in wrapping.sql"
    both = Keyring.parse(f"{new}:{OTHER_KEY},{old}:{KEY}")
    anew = both.rewrap(sealed[:98], context=("a",)) + sealed[98:]
    assert Keyring.parse(f"{new}:{OTHER_KEY}").open(anew, context=("a",)) == b"x" * 100
    with pytest.raises(UndecryptableError):
        both.rewrap(sealed[:98], context=("b",))
