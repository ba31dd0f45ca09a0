# SPDX-License-Identifier: Apache-2.0
"""Frames of a TRR file, for tests: (step, time, {"box": ..., "x": ..., "v": ..., "f": ...})."""
import pathlib
import struct

HEAD_BYTES = 76
# Which of the 13 fields behind the version is the length of what.
LENGTHS = {"box": 2, "x": 7, "v": 8, "f": 9}


def frames(path):
    content, at, found = pathlib.Path(path).read_bytes(), 0, []
    while at < len(content):
        assert struct.unpack_from(">3i", content, at) == (1993, 13, 12), f"{path}: byte {at}"
        field = struct.unpack_from(">13i", content, at + 24)
        real = "d" if field[2] == 72 else "f"
        time = struct.unpack_from(f">{real}", content, at + HEAD_BYTES)[0]
        at += HEAD_BYTES + 2 * struct.calcsize(real)
        arrays = {}
        for name, number in LENGTHS.items():
            if field[number]:
                count = field[number] // struct.calcsize(real)
                arrays[name] = struct.unpack_from(f">{count}{real}", content, at)
                at += field[number]
        found.append((field[11], time, arrays))
    return found
