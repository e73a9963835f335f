#!/usr/bin/env python3
"""Writes segment-v1: a segment of version 1, made from docs/formats.md and not by the crate's own writer.

Usage: ./segment-v1.py > segment-v1
"""
import hashlib, struct, sys

tenant, day = b"acme", 20777  # 2026-11-20
bodies = [b'{"report":{"id":"first"}}', b'{"report":{"id":"second"},"n":[1,2,3]}']


def lz4(body):  # its length, then one run of literals
    run = bytes([len(body) << 4]) if len(body) < 15 else bytes([0xF0, len(body) - 15])
    return struct.pack("<I", len(body)) + run + body


def zstd(body):  # a frame of one raw block
    return bytes.fromhex("28b52ffd20") + bytes([len(body)]) + struct.pack("<I", len(body) << 3 | 1)[:3] + body


header = b"UNSLDSEG" + struct.pack("<HBBi", 1, len(tenant), 0, day) + tenant
out, index = header, b""
for n, (body, code, pack) in enumerate(zip(bodies, (1, 2), (lz4, zstd))):
    payload = pack(body)
    head = b"UFRM" + bytes([code, 0, 0, 0]) + bytes([n + 1]) * 16
    head += struct.pack("<IIqQQ", n, n + 1, 1795161600000000 + n, len(body), len(payload))
    frame = head + hashlib.sha256(head + payload).digest() + payload
    index += struct.pack("<QQ", len(out), len(frame)) + bytes([n + 1]) * 16 + struct.pack("<II", n, n + 1)
    out += frame
start = len(out)
out += index + struct.pack("<QI", start, len(bodies)) + hashlib.sha256(header + index).digest()
out += struct.pack("<HH", 1, 0) + b"UNSLDEND"
sys.stdout.buffer.write(out)
