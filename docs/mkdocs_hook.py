"""Lets `mkdocs build` and `mkdocs serve` find the pages that `docs/site.py` writes, and their menu."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def on_config(config: Any) -> Any:
    """mkdocs calls this before it looks for pages."""
    sys.path.insert(0, str(ROOT))
    from docs.site import menu, write

    pages = ROOT / "build" / "pages"
    write(pages)
    config["docs_dir"], config["nav"] = str(pages), menu()
    return config
