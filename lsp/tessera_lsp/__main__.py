"""`python -m tessera_lsp`: the server, as `tessera-lsp` starts it."""

from __future__ import annotations

import sys

from tessera_lsp.server import main

if __name__ == "__main__":
    sys.exit(main())
