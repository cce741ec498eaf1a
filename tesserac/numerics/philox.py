"""Philox4x32-10, the counter-based generator behind all random numbers, as a straight-line program.

Enters: a key of two 32-bit words and a counter of four, each pair as one u64 (the low half is the first word). Leaves:
the first or the last two of the four words that the generator makes of them, as one u64.

A round multiplies two words of the counter by constants and mixes the halves of the products with the other two words
and the key; the key moves on by a constant. Words are held in u64, so that a product of two is one multiplication.
"""

from __future__ import annotations

from tesserac.numerics.program import Draft, Ref

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
BUMPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
WORD = 0xFFFFFFFF

Words = tuple[Ref, Ref, Ref, Ref]


def philox(d: Draft, key: Ref, low: Ref, high: Ref) -> Ref:
    """Words 0 and 1 of what key and counter give."""
    words = _generate(d, key, low, high)
    return _join(d, words[0], words[1])


def philox_high(d: Draft, key: Ref, low: Ref, high: Ref) -> Ref:
    """Words 2 and 3."""
    words = _generate(d, key, low, high)
    return _join(d, words[2], words[3])


def _generate(d: Draft, key: Ref, low: Ref, high: Ref) -> Words:
    keys = _halves(d, key)
    words = (*_halves(d, low), *_halves(d, high))
    for number in range(ROUNDS):
        keys = keys if number == 0 else (_bump(d, keys[0], BUMPS[0]), _bump(d, keys[1], BUMPS[1]))
        words = _round(d, words, keys)
    return words


def _round(d: Draft, words: Words, keys: tuple[Ref, Ref]) -> Words:
    low0, high0 = _halves(d, d.constant(MULTIPLIERS[0]) * words[0])
    low1, high1 = _halves(d, d.constant(MULTIPLIERS[1]) * words[2])
    first = d.step("xor", d.step("xor", high1, words[1]), keys[0])
    third = d.step("xor", d.step("xor", high0, words[3]), keys[1])
    return first, low1, third, low0


def _bump(d: Draft, word: Ref, by: int) -> Ref:
    return d.step("and", word + d.constant(by), d.constant(WORD))


def _halves(d: Draft, value: Ref) -> tuple[Ref, Ref]:
    return d.step("and", value, d.constant(WORD)), d.step("shr", value, d.constant(32))


def _join(d: Draft, low: Ref, high: Ref) -> Ref:
    return d.step("or", low, d.step("shl", high, d.constant(32)))
