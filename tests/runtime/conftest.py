"""What tests of calls share."""

from __future__ import annotations

import pytest


@pytest.fixture(params=[0, 1], ids=["stub", "careful"])
def way(request: pytest.FixtureRequest) -> int:
    assert isinstance(request.param, int)
    return request.param
