"""Artifacts as files: what is written is read, anything else is refused with an error that a person can read."""

from __future__ import annotations

import struct
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera import TesseraError
from tessera.artifact import Artifact, read_artifact
from tessera.container import VERSION, pack, unpack
from tests.support.native_support import add_artifact
from tests.support.sampling import examples


@cache
def content() -> bytes:
    return add_artifact().to_bytes()


def refused(data: bytes) -> str:
    with pytest.raises(TesseraError) as caught:
        read_artifact(data, "f.tessb")
    assert caught.value.code == "E0910"
    assert str(caught.value).startswith("error[E0910]: cannot use the compiled file `f.tessb`: ")
    return str(caught.value)


def test_an_artifact_survives_its_bytes() -> None:
    artifact = add_artifact()
    read = read_artifact(artifact.to_bytes(), "x")
    assert isinstance(read, Artifact) and read == artifact
    assert read.to_bytes() == artifact.to_bytes()


def test_building_twice_gives_the_same_bytes() -> None:
    assert add_artifact().to_bytes() == content()


def test_a_signature_says_what_a_caller_must_know() -> None:
    signature = add_artifact().signature
    assert [p.show() for p in signature.parameters] == ["Tensor[N, f32]", "Tensor[N, f32]"]
    assert [r.show() for r in signature.results] == ["Tensor[N, f32]"]
    assert signature.symbols == ("N",) and not signature.returns_tuple
    assert [(b.symbol, b.parameter, b.axis) for b in signature.bindings] == [("N", 0, 0)]
    assert "N <= 1000000" in [site.text for site in signature.sites]


@examples(60)
@given(st.data())
def test_any_changed_byte_is_refused(data: st.DataObject) -> None:
    whole = content()
    place = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :]
    refused(changed)


@examples(40)
@given(st.data())
def test_any_cut_is_refused(data: st.DataObject) -> None:
    whole = content()
    refused(whole[: data.draw(st.integers(0, len(whole) - 1))])


@examples(40)
@given(st.binary(max_size=200))
def test_other_bytes_are_refused(data: bytes) -> None:
    assert "not a compiled Tessera file" in refused(data)


def test_another_version_is_named() -> None:
    whole = bytearray(content())
    struct.pack_into("<I", whole, 8, VERSION + 1)
    assert f"format version {VERSION + 1}; this runtime reads version {VERSION}" in refused(bytes(whole))


@pytest.mark.parametrize("inside", [None, [], ["other 1"], ["function 1", 1, 2, 3], ["function 1", [], [], []]])
def test_a_sound_file_with_another_content_is_refused(inside: object) -> None:
    refused(pack(inside, []))


@given(st.lists(st.binary(max_size=50), max_size=4))
def test_containers_keep_their_blobs(blobs: list[bytes]) -> None:
    assert unpack(pack(["a", {"b": 1}], blobs)) == (["a", {"b": 1}], blobs)
