"""Murmur3, 128 bits (x64), with the seed of Kafka Streams: the fingerprint of a row in a foreign-key join."""

from __future__ import annotations

from struct import Struct, unpack_from

SEED = 104729
_MASK = 0xFFFFFFFFFFFFFFFF
C1 = 0x87C37B91114253D5
C2 = 0x4CF5AD432745937F
_TWO_INT64 = Struct(">QQ")


def murmur3_128(data: bytes) -> bytes:
    """Return the 16 bytes of the hash: its two 64-bit halves, each big endian, as Kafka writes them.

    >>> murmur3_128(b"penstock").hex()
    '0e2e4193ead0b3e854b48e060c93a79b'
    """
    length = len(data)
    blocks = length >> 4
    h1 = h2 = SEED
    words = iter(unpack_from(f"<{2 * blocks}Q", data))
    for k1, k2 in zip(words, words, strict=True):
        k1 = k1 * C1 & _MASK
        h1 ^= ((k1 << 31 | k1 >> 33) & _MASK) * C2 & _MASK
        h1 = (((h1 << 27 | h1 >> 37) & _MASK) + h2) * 5 + 0x52DCE729 & _MASK
        k2 = k2 * C2 & _MASK
        h2 ^= ((k2 << 33 | k2 >> 31) & _MASK) * C1 & _MASK
        h2 = (((h2 << 31 | h2 >> 33) & _MASK) + h1) * 5 + 0x38495AB5 & _MASK

    tail = data[blocks << 4 :]
    if tail:
        k1 = int.from_bytes(tail[:8], "little") * C1 & _MASK
        h1 ^= ((k1 << 31 | k1 >> 33) & _MASK) * C2 & _MASK
        k2 = int.from_bytes(tail[8:], "little") * C2 & _MASK
        h2 ^= ((k2 << 33 | k2 >> 31) & _MASK) * C1 & _MASK

    h1 ^= length
    h2 ^= length
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    h1, h2 = _spread(h1), _spread(h2)
    h1 = h1 + h2 & _MASK
    return _TWO_INT64.pack(h1, h2 + h1 & _MASK)


def _spread(h: int) -> int:
    """Let every bit of the input reach every bit of the output."""
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & _MASK
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return h ^ h >> 33
