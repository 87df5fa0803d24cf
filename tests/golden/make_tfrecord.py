#!/usr/bin/env python3
"""Writes examples.tfrecord beside this script: tf.train.Example records in the shapes that writers produce.

Nothing but Python is used, and none of Reckon, so that both sides of the format are written twice.
"""
import pathlib
import struct


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def frame(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def int64s(values, packed=True) -> bytes:
    if packed:
        return field(3, field(1, b"".join(map(varint, values))) if values else b"")
    return field(3, b"".join(varint(1 << 3) + varint(v) for v in values))


def floats(values, packed=True) -> bytes:
    if packed:
        return field(2, field(1, struct.pack(f"<{len(values)}f", *values)) if values else b"")
    return field(2, b"".join(varint(1 << 3 | 5) + struct.pack("<f", v) for v in values))


def texts(values) -> bytes:
    return field(1, b"".join(field(1, v.encode()) for v in values))


def example(features, value_first=False, unknown=b"") -> bytes:
    out = b""
    for name, feature in features:
        key, value = field(1, name.encode()), field(2, feature)
        out += field(1, value + key if value_first else key + value)
    return unknown + field(1, out + unknown)


def main():
    unknown = field(15, b"skipped") + varint(14 << 3) + varint(7) + varint(13 << 3 | 1) + bytes(8)
    records = [
        example([("ids", int64s([1, -2, 300, 1 << 62])), ("price", floats([0.5, -2.0])), ("words", texts(["one", "", "zwölf"])), ("none", int64s([]))]),
        example([("price", floats([1.5], packed=False)), ("ids", int64s([5, 6], packed=False))], value_first=True, unknown=unknown),
        example([("ids", b""), ("words", texts([]))]),
        b"",
    ]
    path = pathlib.Path(__file__).with_name("examples.tfrecord")
    path.write_bytes(b"".join(map(frame, records)))


if __name__ == "__main__":
    main()
