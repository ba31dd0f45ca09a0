# SPDX-License-Identifier: Apache-2.0
"""Inputs made on the spot for comparisons with GROMACS: argon, a slab of water, water with ions.

Advantage: nothing to keep or fetch, and each system is what the test says it is. Disadvantage: the
water and the ions come from GROMACS' own files, so those need it installed.
"""
import os
import pathlib
import random

import leat_md
from gromacs import gmx

GROMACS_TOP = pathlib.Path(os.environ.get("GMXDATA", "/usr/share/gromacs")) / "top"

SETTINGS = {
    "integrator": "md", "dt": "0.002", "nsteps": "0", "cutoff_scheme": "Verlet",
    "coulombtype": "reaction-field", "epsilon_rf": "0", "rcoulomb": "0.9", "rvdw": "0.9",
    "vdw_modifier": "potential-shift", "nstlist": "10", "nstenergy": "1", "nstcalcenergy": "1",
    "nstfout": "1", "tcoupl": "no",
}

ARGON_TOP = """[ defaults ]
1 1
[ atomtypes ]
AR 18 39.948 0.0 A 6.2213e-3 9.6956e-6
[ moleculetype ]
Argon 1
[ atoms ]
1 AR 1 AR AR 1 0.0
[ system ]
argon
[ molecules ]
Argon {count}
"""

WATER_TOP = """#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
#include "oplsaa.ff/ions.itp"
[ system ]
water
[ molecules ]
{molecules}
"""


def settings(directory, **changed):
    values = {**SETTINGS, **changed}
    path = pathlib.Path(directory) / "run.mdp"
    path.write_text("".join(f"{key.replace('_', '-')} = {value}\n" for key, value in values.items()),
                    encoding="utf-8")
    return path


def write(directory, name, text):
    path = pathlib.Path(directory) / name
    path.write_text(text, encoding="utf-8")
    return path


def argon(directory, edge=8, seed=5, **changed):
    """A rattled cubic lattice of edge^3 atoms at the density of the liquid, with velocities."""
    source = random.Random(seed)
    spacing = 0.36
    lines = ["argon", str(edge ** 3)]
    for i in range(edge ** 3):
        place = [i // edge // edge, i // edge % edge, i % edge]
        x = [(n + 0.5) * spacing + source.uniform(-0.04, 0.04) for n in place]
        v = [source.gauss(0.0, 0.14) for _ in range(3)]
        lines.append(f"{(i + 1) % 100000:5d}{'AR':<5}{'AR':>5}{(i + 1) % 100000:5d}" +
                     "".join(f"{value:8.3f}" for value in x) +
                     "".join(f"{value:8.4f}" for value in v))
    lines.append("".join(f"{edge * spacing:10.5f}" for _ in range(3)))
    return (write(directory, "argon.gro", "\n".join(lines) + "\n"),
            write(directory, "argon.top", ARGON_TOP.format(count=edge ** 3)),
            settings(directory, **changed))


def spc216(copies):
    """GROMACS' box of 216 waters repeated along x, y, z: lists of molecules, and the box."""
    source = GROMACS_TOP / "spc216.gro"
    if not source.exists():
        raise leat_md.Skip(f"{source} is not there: GROMACS' data are not installed")
    lines = source.read_text(encoding="utf-8").splitlines()
    box = [float(word) for word in lines[-1].split()]
    atoms = [[float(line[20 + 8 * d:28 + 8 * d]) for d in range(3)] for line in lines[2:-1]]
    molecules = []
    for a in range(copies[0]):
        for b in range(copies[1]):
            for c in range(copies[2]):
                shift = [a * box[0], b * box[1], c * box[2]]
                for m in range(0, len(atoms), 3):
                    molecules.append([[x[d] + shift[d] for d in range(3)] for x in atoms[m:m + 3]])
    return molecules, [n * edge for n, edge in zip(copies, box)]


def write_gro(directory, entries, box):
    """entries: (residue name, [(atom name, position)])."""
    lines, number = [], 0
    for residue, (name, atoms) in enumerate(entries, 1):
        for atom, x in atoms:
            number += 1
            lines.append(f"{residue % 100000:5d}{name:<5}{atom:>5}{number % 100000:5d}" +
                         "".join(f"{value:8.3f}" for value in x))
    return write(directory, "water.gro", "\n".join(
        ["water", str(number), *lines, "".join(f"{edge:10.5f}" for edge in box)]) + "\n")


def water_entry(molecule):
    return "SOL", list(zip(("OW", "HW1", "HW2"), molecule))


def slab(directory, **changed):
    """Water 1.86 nm thick in a box 6 nm high: most of the box is empty."""
    molecules, box = spc216((2, 2, 1))
    box[2] = 6.0
    gro = write_gro(directory, [water_entry(m) for m in molecules], box)
    top = write(directory, "water.top", WATER_TOP.format(molecules=f"SOL {len(molecules)}"))
    return gro, top, settings(directory, **changed)


def tilted(directory, shape, width=2.4, **changed):
    """Water in a `dodecahedron` or `octahedron` of gmx editconf, filled by gmx solvate."""
    leat_md.need_program("gmx_d")
    molecules, _ = spc216((1, 1, 1))
    write_gro(directory, [water_entry(molecules[0])], (3.0, 3.0, 3.0))
    gmx(directory, "editconf", "-f", "water.gro", "-bt", shape, "-box", width, "-c", "-o", "box.gro")
    gmx(directory, "solvate", "-cp", "box.gro", "-cs", "spc216.gro", "-o", "tilted.gro")
    gro = pathlib.Path(directory) / "tilted.gro"
    lines = gro.read_text(encoding="utf-8").splitlines()
    assert len(lines[-1].split()) == 9, lines[-1]
    top = write(directory, "water.top", WATER_TOP.format(molecules=f"SOL {int(lines[1]) // 3}"))
    return gro, top, settings(directory, **changed)


def salt_water(directory, **changed):
    """Water with one sodium and one chloride ion, in the places of two waters."""
    molecules, box = spc216((2, 2, 2))
    sodium, chloride = molecules.pop(700)[0], molecules.pop(100)[0]
    entries = [water_entry(m) for m in molecules]
    entries += [("NA", [("NA", sodium)]), ("CL", [("CL", chloride)])]
    gro = write_gro(directory, entries, box)
    top = write(directory, "water.top",
                WATER_TOP.format(molecules=f"SOL {len(molecules)}\nNA 1\nCL 1"))
    return gro, top, settings(directory, **changed)
