"""What is sealed opens where it was sealed, and nowhere and in no form else."""

from __future__ import annotations

import zlib
from uuid import UUID

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from hypothesis import given
from hypothesis import strategies as st

from fencepost import sealing
from fencepost.errors import KeyUnavailableError, UndecryptableError
from fencepost.keyring import Keyring

EVENT = UUID("0190b2f0-0000-7000-8000-000000000001")
OTHER_EVENT = UUID("0190b2f0-0000-7000-8000-000000000002")
OLD, NEW = Keyring.generate(), Keyring.generate()


@pytest.fixture
def keyring() -> Keyring:
    return Keyring.parse(OLD)


def seal(keyring: Keyring, data: bytes = b'{"a":1}') -> bytes:
    return keyring.seal_payload(
        data, event_id=EVENT, content_type="application/json", event_type="invoice.paid"
    )[1]


def open_(
    keyring: Keyring,
    blob: bytes,
    event_id: UUID = EVENT,
    content_type: str = "application/json",
    event_type: str = "invoice.paid",
) -> bytes:
    return keyring.open_payload(
        blob, event_id=event_id, content_type=content_type, event_type=event_type
    )


@given(data=st.binary(max_size=2000))
def test_every_payload_opens_to_the_same_bytes(data: bytes) -> None:
    keyring = Keyring.parse(OLD)
    assert open_(keyring, seal(keyring, data)) == data


def test_the_same_payload_is_never_sealed_alike(keyring: Keyring) -> None:
    first, second = seal(keyring), seal(keyring)
    head = 6 + len(keyring.key_ids[0])
    assert first[:head] == second[:head]
    assert first[head : head + 12] != second[head : head + 12]
    assert first[head + 60 : head + 72] != second[head + 60 : head + 72]


def test_no_flipped_bit_opens_or_waits_for_a_key(keyring: Keyring) -> None:
    blob = seal(keyring)
    for bit in range(len(blob) * 8):
        changed = bytearray(blob)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(UndecryptableError):
            open_(keyring, bytes(changed))


def test_nothing_cut_or_lengthened_opens(keyring: Keyring) -> None:
    blob = seal(keyring)
    for length in range(len(blob)):
        with pytest.raises(UndecryptableError):
            open_(keyring, blob[:length])
    with pytest.raises(UndecryptableError):
        open_(keyring, blob + b"\0")


def test_a_payload_opens_for_its_own_event_alone(keyring: Keyring) -> None:
    blob = seal(keyring)
    with pytest.raises(UndecryptableError):
        open_(keyring, blob, event_id=OTHER_EVENT)
    with pytest.raises(UndecryptableError):
        open_(keyring, blob, content_type="text/plain")
    with pytest.raises(UndecryptableError):
        open_(keyring, blob, event_type="invoice.void")


def test_the_border_between_content_type_and_event_type_cannot_move(keyring: Keyring) -> None:
    _, blob = keyring.seal_payload(b"x", event_id=EVENT, content_type="a/bc", event_type="d")
    with pytest.raises(UndecryptableError):
        keyring.open_payload(blob, event_id=EVENT, content_type="a/b", event_type="cd")


def test_a_wrapped_key_opens_for_its_own_event_alone(keyring: Keyring) -> None:
    blob = seal(keyring)
    with pytest.raises(UndecryptableError):
        keyring.rewrap_payload(blob, event_id=OTHER_EVENT)


def test_a_missing_key_is_waited_for(keyring: Keyring) -> None:
    blob = seal(Keyring.parse(NEW))
    with pytest.raises(KeyUnavailableError, match=NEW.partition(":")[0]):
        open_(keyring, blob)
    assert open_(Keyring.parse(f"{OLD},{NEW}"), blob) == b'{"a":1}'


def test_another_key_under_the_same_id_does_not_open() -> None:
    key_id = OLD.partition(":")[0]
    impostor = Keyring.parse(f"{key_id}:{NEW.partition(':')[2]}")
    with pytest.raises(UndecryptableError):
        open_(impostor, seal(Keyring.parse(OLD)))


def test_a_newer_form_waits_for_a_worker_that_reads_it(keyring: Keyring) -> None:
    blob = seal(keyring)
    end = 6 + blob[5]
    newer = b"\x02" + zlib.crc32(b"\x02" + blob[5:end]).to_bytes(4, "big") + blob[5:]
    with pytest.raises(KeyUnavailableError, match="newer"):
        open_(keyring, newer)


def test_rewrapping_leaves_nonce_and_data_as_they_are() -> None:
    blob = seal(Keyring.parse(OLD))
    both = Keyring.parse(f"{NEW},{OLD}")
    key_id, rewrapped = both.rewrap_payload(blob, event_id=EVENT)
    assert key_id == NEW.partition(":")[0] == sealing.key_id_of(rewrapped)
    untouched = 12 + len(b'{"a":1}') + 16
    assert rewrapped[-untouched:] == blob[-untouched:]
    assert rewrapped[:-untouched] != blob[:-untouched]
    assert open_(Keyring.parse(NEW), rewrapped) == b'{"a":1}'


def test_a_secret_opens_in_its_own_context_alone(keyring: Keyring) -> None:
    blob = keyring.seal(b"https://example.com/t0ken", context=("endpoint", "1"))
    assert keyring.open(blob, context=("endpoint", "1")) == b"https://example.com/t0ken"
    for context in (("endpoint", "2"), ("headers", "1"), ("endpoint1",), ("endpoint", "1", "")):
        with pytest.raises(UndecryptableError):
            keyring.open(blob, context=context)


def test_a_secret_is_no_payload(keyring: Keyring) -> None:
    with pytest.raises(UndecryptableError):
        open_(keyring, keyring.seal(b"x", context=(str(EVENT), "application/json", "invoice.paid")))


def test_the_form_is_the_documented_one() -> None:
    """Opens by hand, from the module's docstring, what ``seal`` made."""
    key = bytes(range(32))
    place, aad = sealing.bind("place"), sealing.bind("aad")
    blob = sealing.seal(b"data", key=key, key_id="k1", place=place, aad=aad)
    assert blob[0] == 1
    assert blob[1:5] == zlib.crc32(b"\x01\x02k1").to_bytes(4, "big")
    assert blob[5:8] == b"\x02k1"
    wrap_aad = (
        b"\x00\x00\x00\x15fencepost.data-key.v1"
        b"\x00\x00\x00\x09\x00\x00\x00\x05place"
        b"\x00\x00\x00\x02k1"
    )
    wrap_key = HKDFExpand(hashes.SHA256(), 32, wrap_aad).derive(key)
    data_key = AESGCM(wrap_key).decrypt(blob[8:20], blob[20:68], wrap_aad)
    assert AESGCM(data_key).decrypt(blob[68:80], blob[80:], aad) == b"data"


@given(left=st.lists(st.binary(max_size=9)), right=st.lists(st.binary(max_size=9)))
def test_different_parts_never_bind_alike(left: list[bytes], right: list[bytes]) -> None:
    assert (sealing.bind(*left) == sealing.bind(*right)) == (left == right)
