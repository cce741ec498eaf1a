"""Build hook: the wheel carries what start-up must not make: the parser's tables and the library, checked.

Runs in the build environment, which `pyproject.toml` gives the packages that the front end needs. An editable install
carries nothing prepared: there the grammar and the library may change at any time.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PreparedData(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path[:0] = [self.root, str(Path(self.root) / "runtime")]
        from tesserac.driver.prepare import prepared_files

        for name, data in prepared_files().items():
            file = self._folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            build_data["force_include"][str(file)] = f"tesserac/_data/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _folder(self) -> Path:
        return Path(self.directory) / "prepared"
