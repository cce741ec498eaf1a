"""Names of the language whose meaning the checker does not know yet, by feature.

A name leaves this table on the day the library or the checker defines it; until then a use of it says so, rather than
that the name is unknown.
"""

from __future__ import annotations

COLLECTIVES = "placement and distribution"
FUNCTIONS = (COLLECTIVES,)
"""Functions: they may be named, as in a list of them, before they can be called."""
_FEATURES = {
    COLLECTIVES: "all_reduce all_gather reduce_scatter all_to_all",
}

LATER: dict[str, str] = {name: feature for feature, names in _FEATURES.items() for name in names.split()}
"""The feature that each name belongs to."""
