#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a .gro of SPC/E waters on a cubic lattice with random orientations, at 997 kg/m3.

usage: make_water.py MOLECULES_A_SIDE SEED > lattice.gro

No overlap is worse than what a few hundred short steps under a thermostat take out; see
make_water.sh, which equilibrates the box with leat itself.
"""
import math
import random
import sys

OH, HH = 0.1, 0.1633  # nm, SPC/E
PER_NM3 = 997.0 / 18.0154 * 0.602214076


def rotation(rng):
    """A uniform random rotation matrix, from a random unit quaternion (Shoemake 1992)."""
    u, v, w = rng.random(), 2 * math.pi * rng.random(), 2 * math.pi * rng.random()
    a, b = math.sqrt(1 - u), math.sqrt(u)
    x, y, z, s = a * math.sin(v), a * math.cos(v), b * math.sin(w), b * math.cos(w)
    return (
        (1 - 2 * (y * y + z * z), 2 * (x * y - s * z), 2 * (x * z + s * y)),
        (2 * (x * y + s * z), 1 - 2 * (x * x + z * z), 2 * (y * z - s * x)),
        (2 * (x * z - s * y), 2 * (y * z + s * x), 1 - 2 * (x * x + y * y)),
    )


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    side, rng = int(sys.argv[1]), random.Random(int(sys.argv[2]))
    spacing = PER_NM3 ** (-1 / 3)
    height = math.sqrt(OH * OH - HH * HH / 4)
    sites = (("OW", (0, 0, 0)), ("HW1", (height, HH / 2, 0)), ("HW2", (height, -HH / 2, 0)))
    print(f"SPC/E water, lattice of {side}^3, seed {sys.argv[2]}")
    print(3 * side**3)
    molecule = atom = 0
    for i in range(side):
        for j in range(side):
            for k in range(side):
                molecule += 1
                turn = rotation(rng)
                for name, at in sites:
                    atom += 1
                    x, y, z = (
                        (c + 0.5) * spacing + sum(turn[d][e] * at[e] for e in range(3))
                        for d, c in enumerate((i, j, k))
                    )
                    print(f"{molecule % 100000:5d}{'SOL':<5}{name:>5}{atom % 100000:5d}"
                          f"{x:8.3f}{y:8.3f}{z:8.3f}")
    print(f"{side * spacing:10.5f}{side * spacing:10.5f}{side * spacing:10.5f}")


if __name__ == "__main__":
    main()
