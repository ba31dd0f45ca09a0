# SPDX-License-Identifier: Apache-2.0
"""LAMMPS (lmp) as a peer: data files made here, its energies and forces, and leat on the same file.

Advantage: one data file is read by both, so nothing is converted. Disadvantage: settings stand twice,
in LAMMPS' commands and in leat's options; `Case` keeps them beside each other.
"""
import json
import math
import os
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import compare  # noqa: E402
import leat_md  # noqa: E402

COLUMNS = ("step temp evdwl ecoul ebond eangle edihed eimp pe ke etotal press").split()


def lmp(directory, script):
    """Runs a script; the rows of the last run's thermo output, as dictionaries."""
    leat_md.need_program("lmp")
    path = pathlib.Path(directory) / "in.peer"
    path.write_text(script, encoding="ascii")
    done = subprocess.run(["lmp", "-in", path.name, "-log", "none"], cwd=directory, text=True,
                          capture_output=True, timeout=200, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    rows, inside = [], False
    for line in done.stdout.splitlines():
        words = line.split()
        if words[:2] == ["Step", "Temp"]:
            inside, rows = True, []
        elif inside and len(words) == len(COLUMNS) and words[0].isdigit():
            rows.append(dict(zip(COLUMNS, map(float, words))))
        else:
            inside = False
    assert rows, done.stdout
    return rows


THERMO = f"""
thermo_style custom {' '.join(COLUMNS)}
thermo_modify norm no format float %.15g
"""


def forces(directory, name="forces.dump"):
    """Of a dump with columns fx fy fz, sorted by id."""
    lines = (pathlib.Path(directory) / name).read_text(encoding="ascii").splitlines()
    start = max(i for i, line in enumerate(lines) if line.startswith("ITEM: ATOMS"))
    return [tuple(map(float, line.split())) for line in lines[start + 1:]]


DUMP = """
dump forces all custom 1000000 forces.dump fx fy fz
dump_modify forces sort id format float %.16g
"""


def leat(directory, data, *options, timeout=100):
    """The report of `leat md --data`, with its forces under the name "forces"."""
    path = pathlib.Path(directory) / "forces.txt"
    command = [leat_md.leat_bin(), "md", "--data", str(data), "--json", "--forces", str(path),
               *map(str, options)]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False,
                          timeout=timeout)
    assert done.returncode == 0, " ".join(command) + "\n" + done.stderr
    report = json.loads(done.stdout)
    report["forces"] = compare.read_forces(str(path))
    return report


# ---- a box of flexible molecules

# Atom types: water's oxygen and hydrogen, the chain's carbon and its end.
WATER = {"atoms": ((1, -0.8, (0, 0, 0)), (2, 0.4, (0.96, 0, 0)), (2, 0.4, (-0.25, 0.93, 0))),
         "bonds": ((1, 0, 1), (1, 0, 2)), "angles": ((1, 1, 0, 2),), "dihedrals": (),
         "impropers": ()}
CHAIN = {"atoms": ((3, 0.2, (0, 0, 0)), (3, -0.1, (1.5, 0.1, 0)), (3, -0.2, (2.1, 1.4, 0.2)),
                   (3, 0.15, (3.6, 1.5, 0.5)), (4, -0.05, (4.1, 2.7, 1.1))),
         "bonds": ((2, 0, 1), (2, 1, 2), (2, 2, 3), (3, 3, 4)),
         "angles": ((2, 0, 1, 2), (2, 1, 2, 3), (3, 2, 3, 4)),
         "dihedrals": ((1, 0, 1, 2, 3), (2, 1, 2, 3, 4)),
         "impropers": ((1, 1, 0, 2, 3), (2, 0, 1, 2, 4))}
KINDS = ("bonds", "angles", "dihedrals", "impropers")

COEFFICIENTS = """
Masses

1 15.9994
2 1.008
3 12.011
4 19.0

Pair Coeffs # lj/cut/coul/cut

1 0.1553 3.166
2 0.046 0.9
3 0.109 3.4
4 0.061 3.1

Bond Coeffs # harmonic

1 450 1.0
2 310 1.53
3 340 1.38

Angle Coeffs # harmonic

1 55 109.47
2 63 112
3 80 109.5

Dihedral Coeffs # harmonic

1 1.4 1 3
2 0.6 -1 2

Improper Coeffs # harmonic

1 4.5 0
2 2.5 35.26
"""


def place(molecule, corner, turn, rng):
    """Atoms of a molecule at a corner, turned about z and shaken."""
    cosine, sine = math.cos(turn), math.sin(turn)
    for kind, charge, (x, y, z) in molecule["atoms"]:
        at = (x * cosine - y * sine, x * sine + y * cosine, z)
        yield kind, charge, [c + p + rng.uniform(-0.05, 0.05) for c, p in zip(corner, at)]


def shuffled_order(count):
    """The place of each atom when ids are in no order."""
    order = list(range(count))
    random.Random(count).shuffle(order)
    return order


def molecules(path, tilt=(0, 0, 0), interleaved=False, seed=1):
    """Writes a box of 180 waters and 9 chains with velocities, its corner not at the origin."""
    rng = random.Random(seed)
    spacing, count = 4.0, 6
    cells = [(i, j, k) for i in range(count) for j in range(count) for k in range(count)]
    rows, links, number = [], {kind: [] for kind in KINDS}, 0
    for i, j, k in cells:
        chain = k == 0
        if chain and (i % 2 or j % 2):
            continue  # the rest of a chain is there
        number += 1
        molecule = CHAIN if chain else WATER
        first = len(rows)
        corner = [spacing * n - 4.0 for n in (i, j, k)]
        rows += [(number, *atom) for atom in place(molecule, corner, 0.0 if chain else
                                                   rng.uniform(0, 6.28), rng)]
        for kind in KINDS:
            links[kind] += [(term[0], *(first + a for a in term[1:])) for term in molecule[kind]]
    order = shuffled_order(len(rows)) if interleaved else list(range(len(rows)))
    write(path, rows, links, order, tilt, spacing * count, rng)
    return path


def write(path, rows, links, order, tilt, edge, rng):
    """Ids are order[row] + 1; lines come in an order of their own."""
    text = ["a box of flexible molecules", "", f"{len(rows)} atoms"]
    text += [f"{len(links[kind])} {kind}" for kind in KINDS]
    text += ["4 atom types", "3 bond types", "3 angle types", "2 dihedral types", "2 improper types"]
    text += [f"-4.5 {edge - 4.5!r} {d}lo {d}hi" for d in "xyz"]
    text += [f"{tilt[0]} {tilt[1]} {tilt[2]} xy xz yz"] if any(tilt) else []
    text += [COEFFICIENTS, "Atoms # full", ""]
    lines = [f"{order[i] + 1} {molecule} {kind} {charge} {x[0]!r} {x[1]!r} {x[2]!r}"
             for i, (molecule, kind, charge, x) in enumerate(rows)]
    rng.shuffle(lines)
    text += lines + ["", "Velocities", ""]
    text += [f"{i + 1} " + " ".join(repr(rng.gauss(0, 0.005)) for _ in range(3))
             for i in range(len(rows))]
    for kind in KINDS:
        text += ["", kind.capitalize(), ""]
        text += [f"{n + 1} {term[0]} " + " ".join(str(order[a] + 1) for a in term[1:])
                 for n, term in enumerate(links[kind])]
    pathlib.Path(path).write_text("\n".join(text) + "\n", encoding="ascii")
