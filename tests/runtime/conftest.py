"""What tests of calls share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tessera
from tests.support.fake_cuda import FakeCuda, emulated_cuda, fake_cuda


@pytest.fixture(params=[0, 1], ids=["stub", "careful"])
def way(request: pytest.FixtureRequest) -> int:
    assert isinstance(request.param, int)
    return request.param


@pytest.fixture
def fake() -> Iterator[FakeCuda]:
    with fake_cuda() as made:
        yield made


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeCuda]:
    """One whose kernels compute, for all tests of a file."""
    with emulated_cuda(tmp_path_factory.mktemp("code")) as made:
        yield made


@pytest.fixture(scope="module")
def module(device: FakeCuda, request: pytest.FixtureRequest) -> tessera.module.Module:
    """A file's `PROGRAM` for that device."""
    return tessera.compile(request.module.PROGRAM, device="cuda")
