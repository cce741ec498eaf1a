"""Every code that the runtime raises has a page, and the programs on those pages do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tessera import TesseraError, errors, set_num_threads
from tesserac.diag import codes
from tesserac.diag.pages import load_page, page_codes

BLOCK = re.compile(r"^## (Fails|Fixed)\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def programs(code: str) -> dict[str, str]:
    page = load_page(code)
    assert page is not None
    return dict(BLOCK.findall(page.text))


RUNTIME = [code.id for code in vars(codes.runtime).values() if isinstance(code, codes.Code)]


def test_the_runtime_raises_known_codes_only() -> None:
    raised = {value for value in vars(errors).values() if isinstance(value, str) and re.fullmatch(r"[EW]\d{4}", value)}
    assert raised <= codes.ALL.keys()
    assert {code for code in RUNTIME if code.startswith("E")} <= raised
    assert set(RUNTIME) <= set(page_codes())


@pytest.mark.one_in(6)
@pytest.mark.parametrize("code", [code for code in RUNTIME if programs(code)])
def test_pages_tell_the_truth(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_CACHE_DIR", str(tmp_path))
    found = programs(code)
    with pytest.raises(TesseraError) as caught:
        exec(found["Fails"], {})
    assert caught.value.code == code
    assert all(len(line) <= 100 for line in str(caught.value).splitlines())
    exec(found["Fixed"], {})
    set_num_threads(2)
