"""Build hook: the wheel carries what start-up must not make: the parser's tables and the library, parsed and checked.

Runs in the build environment, which `pyproject.toml` gives the packages the front end needs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PreparedData(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "prepared-data"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from tesserac.prepare import prepared_files

        folder = Path(self.directory) / "prepared"
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in prepared_files().items():
            target = folder / name.replace("/", "-")
            target.write_bytes(data)
            build_data["force_include"][str(target)] = f"tesserac/_data/{name}"
