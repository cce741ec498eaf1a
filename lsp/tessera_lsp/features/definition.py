"""Where a name is defined."""

from __future__ import annotations

from tessera_lsp.features.meanings import ItemMeaning, LocalMeaning, MemberMeaning, meaning_of
from tessera_lsp.features.places import place_at, word_at
from tesserac.base.source import SourceFile, Span
from tesserac.driver.session import Session


def definition(session: Session, source: SourceFile, offset: int) -> Span | None:
    """The place that binds the name at an offset: in this file, or in a file of the library."""
    analysis = session.check_at(source, offset)
    place = place_at(analysis, offset)
    word = word_at(place) if place is not None else None
    if place is None or word is None:
        return None
    meaning = meaning_of(session, analysis, place, word)
    return meaning.span if isinstance(meaning, LocalMeaning | MemberMeaning | ItemMeaning) else None
