"""What tests of calls share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fake_cuda import FakeCuda, fake_cuda


@pytest.fixture(params=[0, 1], ids=["stub", "careful"])
def way(request: pytest.FixtureRequest) -> int:
    assert isinstance(request.param, int)
    return request.param


@pytest.fixture
def fake() -> Iterator[FakeCuda]:
    with fake_cuda() as made:
        yield made
