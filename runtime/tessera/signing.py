"""Signed bundles: Ed25519, by the package `cryptography`, which only those need who sign or check.

    16 bytes  magic
    64 bytes  signature of all that follows
    bundle

Enters: the bytes of a bundle and a key in a PEM file. Leaves: the bytes of a signed one; and from those the bundle,
once its signature is one of a key that is trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tessera.errors import NOT_SIGNED, UNREADABLE_FILE, TesseraError, failure, path_of, reason_of
from tessera.files import read_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MAGIC = b"TESSERA-SIGNED1\n"
_SIGNATURE = 64
_DOMAIN = b"tessera bundle\0"
"""Stands before what is signed, so that a signature of something else is none of a bundle."""


def signed(bundle: bytes, key: str) -> bytes:
    """Raises TesseraError for a key that cannot be used."""
    serialization, ed25519 = _library()
    try:
        private = serialization.load_pem_private_key(_read(key), None)
    except (ValueError, TypeError) as error:
        raise _bad_key(key, str(error)) from None
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise _bad_key(key, "it is not an Ed25519 key")
    signature: bytes = private.sign(_DOMAIN + bundle)
    return MAGIC + signature + bundle


def content(data: bytes) -> bytes:
    """The bundle in a file, signed or not."""
    return data[len(MAGIC) + _SIGNATURE :] if data.startswith(MAGIC) else data


def trusted_content(data: bytes, path: str, keys: object) -> bytes:
    """The bundle in a file that one of the keys has signed. Raises TesseraError."""
    publics = [_public(key) for key in (keys if isinstance(keys, Sequence) and not isinstance(keys, str) else [keys])]
    if not data.startswith(MAGIC):
        raise failure(NOT_SIGNED, f"`{path}` is not signed", ("`tesserac build --sign KEY` signs a bundle",))
    from cryptography.exceptions import InvalidSignature

    bundle, signature = content(data), data[len(MAGIC) : len(MAGIC) + _SIGNATURE]
    for public in publics:
        try:
            public.verify(signature, _DOMAIN + bundle)
            return bundle
        except InvalidSignature:
            continue
    raise failure(NOT_SIGNED, f"`{path}` is not signed by a key that is trusted, or was changed since")


def _public(key: object) -> Ed25519PublicKey:
    serialization, ed25519 = _library()
    path = path_of(key)
    try:
        found = serialization.load_pem_public_key(_read(path))
    except ValueError as error:
        raise _bad_key(path, str(error)) from None
    if not isinstance(found, ed25519.Ed25519PublicKey):
        raise _bad_key(path, "it is not an Ed25519 key")
    public: Ed25519PublicKey = found
    return public


def _read(path: str) -> bytes:
    try:
        return read_file(path)
    except (OSError, ValueError) as error:
        raise failure(UNREADABLE_FILE, f"cannot read `{path}`: {reason_of(error)}") from None


def _bad_key(path: str, reason: str) -> TesseraError:
    note = "`openssl genpkey -algorithm ed25519 -out key.pem` makes one, `openssl pkey -pubout` its public half"
    return failure(NOT_SIGNED, f"cannot use the key in `{path}`: {reason.splitlines()[0] if reason else ''}", (note,))


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        note = "`pip install tessera-lang[sign]`"
        raise failure(NOT_SIGNED, "signatures need the package cryptography", (note,)) from None
    return serialization, ed25519
