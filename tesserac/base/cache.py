"""The user's cache folder."""

from __future__ import annotations

from pathlib import Path

from tessera.cache import default_directory


def user_cache_dir() -> Path:
    """See `tessera.cache`. It need not exist, and what is in it need not be ours."""
    return Path(default_directory())
