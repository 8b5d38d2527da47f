"""Record batches in plain Python, by the letter of the format: the slow truth beside the loop in C."""

from __future__ import annotations

import struct

POLYNOMIAL = 0x82F63B78


def crc_of(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (POLYNOMIAL if byte & 1 else 0)
    return byte


TABLE = [crc_of(byte) for byte in range(256)]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def varint(number):
    number = number * 2 if number >= 0 else -number * 2 - 1
    data = bytearray()
    while number > 127:
        data.append(number % 128 + 128)
        number //= 128
    data.append(number)
    return bytes(data)


def field(data):
    return varint(-1) if data is None else varint(len(data)) + data


def record(number, delta, key, value, headers):
    body = b"\0" + varint(delta) + varint(number) + field(key) + field(value) + varint(len(headers))
    for name, data in headers:
        body += field(name.encode()) + field(data)
    return varint(len(body)) + body


def wrapped(number):
    """As 64 bits hold it."""
    return (number + 2**63) % 2**64 - 2**63


def batch(rows, identity=-1, epoch=-1, sequence=-1, transactional=False):
    """Rows are (key, value, timestamp, headers)."""
    times = [time or 1 for _, _, time, _ in rows]
    records = b"".join(
        record(number, wrapped(time - times[0]), key, value, headers)
        for number, ((key, value, _, headers), time) in enumerate(zip(rows, times, strict=True))
    )
    attributes = 16 if transactional else 0
    rest = struct.pack(
        ">hiqqqhii", attributes, len(rows) - 1, times[0], max(times), identity, epoch, sequence, len(rows)
    )
    rest += records
    return struct.pack(">qiibI", 0, 9 + len(rest), -1, 2, crc32c(rest)) + rest
