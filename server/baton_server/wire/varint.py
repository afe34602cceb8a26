"""Protobuf by hand: tags, varints and length-delimited fields, for what is sent too often to be parsed."""

from __future__ import annotations

VARINT, DELIMITED = 0, 2
"""Wire types of the protobuf encoding."""


_SMALL = tuple(bytes((value,)) for value in range(0x80))


def varint(value: int) -> bytes:
    """Write an unsigned integer, 7 bits a byte, the lowest first. Raises ValueError below 0."""
    if value < 0x80:
        return _SMALL[value] if value >= 0 else _negative(value)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned integer; returns it and where it ends. Raises IndexError where the bytes end before it does."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def varint_size(value: int) -> int:
    """Count the bytes that `varint` gives."""
    return 1 if value < 0x80 else (value.bit_length() + 6) // 7


def tag(field_number: int, wire_type: int = DELIMITED) -> bytes:
    """Write what precedes a field's value."""
    return varint(field_number << 3 | wire_type)


def field(field_number: int, value: bytes) -> bytes:
    """Write a text, bytes or message field: tag, length, value."""
    return tag(field_number) + varint(len(value)) + value


def _negative(value: int) -> bytes:
    raise ValueError(f"{value} has no unsigned varint")
