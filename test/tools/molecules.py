# SPDX-License-Identifier: Apache-2.0
"""Boxes of molecules made on the spot: alcohols and ions in water from Debian's OPLS files, a peptide
in AMBER99SB, and chains under combination rule 1 that are all our own.

Coordinates come from internal ones, boxes from gmx insert-molecules and gmx solvate, and a short
minimisation by gmx_d takes out what overlaps. Advantage: any kind of molecule in a dozen lines, with
nothing of GROMACS kept here. Disadvantage: a second or so of preparation each, so boxes are kept for
the tests of one process (`box`).
"""
import atexit
import functools
import math
import pathlib
import random
import shutil
import tempfile

import inputs
import leat_md
from gromacs import gmx

# Atoms in the order in which they are placed: number in the molecule, name, and the bond length
# (nm), angle and dihedral (degrees) to three atoms that are there already, by number.
ETHANOL = ("ETH", [
    (1, "C"), (5, "C", 1, 0.1529), (8, "OA", 5, 0.1410, 1, 109.5),
    (9, "HO", 8, 0.0945, 5, 108.5, 1, 175),
    (2, "H", 1, 0.109, 5, 110.7, 8, 172), (3, "H", 1, 0.109, 5, 110.7, 8, 52),
    (4, "H", 1, 0.109, 5, 110.7, 8, -68),
    (6, "H", 5, 0.109, 1, 110.7, 2, 51), (7, "H", 5, 0.109, 1, 110.7, 2, -67)])
METHANOL = ("MET", [
    (1, "C"), (5, "OA", 1, 0.1410), (6, "HO", 5, 0.0945, 1, 108.5),
    (2, "H", 1, 0.109, 5, 109.5, 6, 171), (3, "H", 1, 0.109, 5, 109.5, 6, 51),
    (4, "H", 1, 0.109, 5, 109.5, 6, -69)])
PROPANOL = ("POL", [
    (1, "C"), (5, "C", 1, 0.1529), (8, "C", 5, 0.1529, 1, 112.7),
    (11, "OA", 8, 0.1410, 5, 109.5, 1, 65), (12, "HO", 11, 0.0945, 8, 108.5, 5, 178),
    (2, "H", 1, 0.109, 5, 110.7, 8, 175), (3, "H", 1, 0.109, 5, 110.7, 8, 55),
    (4, "H", 1, 0.109, 5, 110.7, 8, -65),
    (6, "H", 5, 0.109, 1, 109.5, 2, 55), (7, "H", 5, 0.109, 1, 109.5, 2, -65),
    (9, "H", 8, 0.109, 5, 109.5, 11, 121), (10, "H", 8, 0.109, 5, 109.5, 11, -121)])
# An alanine and a phenylalanine between an acetyl and a methylamide; hydrogens are pdb2gmx's.
PEPTIDE = [
    ("ACE", [(1, "CH3"), (2, "C", 1, 0.1522), (3, "O", 2, 0.1229, 1, 120.4)]),
    ("ALA", [(4, "N", 2, 0.1335, 1, 116.6, 3, 176), (5, "CA", 4, 0.1449, 2, 121.9, 1, 178),
             (6, "CB", 5, 0.1526, 4, 109.7, 2, 165), (7, "C", 5, 0.1522, 4, 110.1, 2, -75),
             (8, "O", 7, 0.1229, 5, 120.4, 4, -50)]),
    ("PHE", [(9, "N", 7, 0.1335, 5, 116.6, 4, 131), (10, "CA", 9, 0.1449, 7, 121.9, 5, -177),
             (11, "CB", 10, 0.1526, 9, 109.7, 7, 168), (12, "CG", 11, 0.1510, 10, 114.0, 9, -62),
             (13, "CD1", 12, 0.1400, 11, 120.0, 10, 85), (14, "CD2", 12, 0.1400, 11, 120.0, 10, -95),
             (15, "CE1", 13, 0.1400, 12, 120.0, 11, 180), (16, "CE2", 14, 0.1400, 12, 120.0, 11, 180),
             (17, "CZ", 15, 0.1400, 13, 120.0, 12, 0),
             (18, "C", 10, 0.1522, 9, 110.1, 7, -72), (19, "O", 18, 0.1229, 10, 120.4, 9, -44)]),
    ("NME", [(20, "N", 18, 0.1335, 10, 116.6, 9, 138), (21, "CH3", 20, 0.1449, 18, 121.9, 10, 179)])]

ALCOHOLS = {"ethanol": ETHANOL, "methanol": METHANOL, "1propanol": PROPANOL}

TOP = """#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/{kind}.itp"
#include "oplsaa.ff/{water}.itp"
#include "oplsaa.ff/ions.itp"
[ system ]
{kind} and {water}
[ molecules ]
{molecules}
"""

# Chains of five beads that carry every kind of term with numbers of their own; c6 and c12 of pairs
# are sometimes combined and sometimes given.
CHAIN_TOP = """[ defaults ]
1 1 no 0.7 0.8
[ atomtypes ]
A 6 14.0 0.0 A 6.0e-3 1.2e-5
B 8 16.0 0.0 A 2.2e-3 2.6e-6
[ nonbond_params ]
A B 1 3.4e-3 4.9e-6
[ pairtypes ]
A B 1 1.7e-3 2.0e-6
[ bondtypes ]
A A 1 0.153 250000
[ angletypes ]
A A A 1 111 460
[ dihedraltypes ]
A A 1 0 5.9 3
[ moleculetype ]
Chain 3
[ atoms ]
1 A 1 CHN A1 1 0.2
2 A 1 CHN A2 1 -0.1 13.0
3 A 1 CHN A3 1 -0.1
4 A 1 CHN A4 1 0.35
5 B 1 CHN B5 1 -0.35
[ bonds ]
1 2 1
2 3 1
3 4 1
4 5 1 0.143 310000
[ angles ]
1 2 3 1
2 3 4 1
3 4 5 1 109 520
[ dihedrals ]
1 2 3 4 1
2 3 4 5 1 120 2.1 2
2 3 4 5 9 40 1.3 1
2 3 4 5 9 -20 0.8 4
1 2 3 5 2 35 30
2 3 4 1 4 180 4.5 2
[ pairs ]
2 5 1
1 4 1 1.1e-3 3.0e-6
[ system ]
chains
[ molecules ]
Chain {count}
"""
CHAIN = ("CHN", [(1, "A1"), (2, "A2", 1, 0.153), (3, "A3", 2, 0.153, 1, 111),
                 (4, "A4", 3, 0.153, 2, 111, 1, 70), (5, "B5", 4, 0.143, 3, 109, 2, 165)])

def place(rows):
    """{number: position} from internal coordinates."""
    at = {}
    for row in rows:
        distance = row[3] if len(row) > 3 else 0.0
        angle = math.radians(row[5]) if len(row) > 5 else math.pi / 2
        twist = math.radians(row[7]) if len(row) > 7 else 0.0
        # Atoms that the first three do not have are somewhere off their line.
        a, b, c = [at.get(row[i]) if len(row) > i else None for i in (2, 4, 6)]
        a = a or (0.0, 0.0, 0.0)
        b = b or (a[0] - 0.1, a[1], a[2])
        c = c or (b[0], b[1] + 0.1, b[2])
        along = unit(minus(a, b))
        normal = unit(cross(minus(b, c), along))
        side = cross(normal, along)
        parts = (-math.cos(angle), math.sin(angle) * math.cos(twist),
                 math.sin(angle) * math.sin(twist))
        at[row[0]] = tuple(a[d] + distance * (parts[0] * along[d] + parts[1] * side[d] +
                                              parts[2] * normal[d]) for d in range(3))
    return at


def minus(a, b):
    return tuple(x - y for x, y in zip(a, b))


def cross(a, b):
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def unit(a):
    length = math.sqrt(sum(x * x for x in a))
    return tuple(x / length for x in a)


def molecule_gro(directory, name, molecule):
    residue, rows = molecule
    at = place(rows)
    names = {row[0]: row[1] for row in rows}
    lines = [f"{1:5d}{residue:<5}{names[n]:>5}{n:5d}" + "".join(f"{x:8.3f}" for x in at[n])
             for n in sorted(at)]
    return inputs.write(directory, name, "\n".join([residue, str(len(lines)), *lines,
                                                    "   3.00000" * 3]) + "\n")


def with_velocities(path, seed):
    """Gives the atoms of a .gro Maxwell velocities at 300 K; masses go by the names' first letter."""
    masses = {"H": 1.008, "C": 12.011, "O": 15.9994, "N": 14.0067, "A": 14.0, "B": 16.0}
    source = random.Random(seed)
    lines = path.read_text(encoding="utf-8").splitlines()
    for row in range(2, len(lines) - 1):
        mass = {"NA": 22.9898, "CL": 35.4530}.get(lines[row][10:15].strip(),
                                                  masses[lines[row][10:15].strip()[0]])
        width = math.sqrt(0.0083144626 * 300 / mass)
        lines[row] = lines[row][:44] + "".join(f"{source.gauss(0, width):8.4f}" for _ in range(3))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def relax(directory, gro, top, steps=80):
    """Steepest descent by gmx_d; what it leaves gets velocities."""
    mdp = inputs.settings(directory, integrator="steep", nsteps=steps, emtol="200", nstlist="10",
                          nstenergy="100", nstcalcenergy="100", nstfout="0")
    gmx(directory, "grompp", "-f", mdp, "-c", gro, "-p", top, "-o", "relax.tpr", "-po", "relax.mdp",
        "-maxwarn", "9")
    gmx(directory, "mdrun", "-s", "relax.tpr", "-deffnm", "relax", "-ntmpi", 1, "-ntomp", 1)
    relaxed = pathlib.Path(directory) / "relax.gro"
    with_velocities(relaxed, 7)
    return relaxed


def replace_waters(path, ions):
    """The last waters' oxygens become ions; the other atoms of them go."""
    lines = path.read_text(encoding="utf-8").splitlines()
    atoms, box = lines[2:-1], lines[-1]
    waters = [i for i, line in enumerate(atoms) if line[10:15].strip() == "OW"][-7 * len(ions)::7]
    oxygens = [atoms[i] for i in waters]
    gone = {i + k for i in waters for k in range(3)}
    atoms = [line for i, line in enumerate(atoms) if i not in gone]
    atoms += [line[:5] + f"{ion:<5}{ion:>5}" + line[15:] for ion, line in zip(ions, oxygens)]
    path.write_text("\n".join([lines[0], str(len(atoms)), *atoms, box]) + "\n", encoding="utf-8")


def counts(path):
    """[ molecules ] of a .gro: neighbouring residues of one name."""
    found, last = [], None
    for line in path.read_text(encoding="utf-8").splitlines()[2:-1]:
        if line[:10] != last:
            name = line[5:10].strip()
            if found and found[-1][0] == name:
                found[-1][1] += 1
            else:
                found.append([name, 1])
        last = line[:10]
    return found


def uncharged(text):
    """An .itp whose atoms carry no charge."""
    lines, section = [], ""
    for line in text.splitlines():
        words = line.split(";")[0].split()
        section = words[1] if words[:1] == ["["] else section
        if section == "atoms" and len(words) >= 7 and words[0].isdigit():
            line = " ".join([*words[:6], "0.0", *words[7:]])
        lines.append(line)
    return "\n".join(lines) + "\n"


def alcohol(directory, kind="ethanol", count=24, water="spce", width=2.4, shape="cubic", ions=(),
            charged=True):
    """(gro, top) of an alcohol in water, relaxed and with velocities."""
    leat_md.need_program("gmx_d")
    molecule = ALCOHOLS[kind]
    molecule_gro(directory, "one.gro", molecule)
    gmx(directory, "editconf", "-f", "one.gro", "-bt", shape, "-box", width, "-c", "-o", "box.gro")
    gmx(directory, "insert-molecules", "-f", "box.gro", "-ci", "one.gro", "-nmol", count - 1,
        "-seed", 3, "-o", "solute.gro")
    gmx(directory, "solvate", "-cp", "solute.gro", "-cs", "spc216.gro", "-o", "wet.gro")
    gro = pathlib.Path(directory) / "wet.gro"
    if ions:
        replace_waters(gro, ions)
    lines = "\n".join(f"{name} {number}" for name, number in counts(gro))
    top = TOP.format(kind=kind, water=water, molecules=lines)
    for name in () if charged else (kind, water):
        text = (inputs.GROMACS_TOP / "oplsaa.ff" / f"{name}.itp").read_text(encoding="utf-8")
        inputs.write(directory, f"uncharged_{name}.itp", uncharged(text))
        top = top.replace(f"oplsaa.ff/{name}", f"uncharged_{name}")
    top = inputs.write(directory, "box.top", top)
    return relax(directory, gro, top), top


def peptide(directory, width=2.4):
    """(gro, top) of a peptide of AMBER99SB in TIP3P."""
    leat_md.need_program("gmx_d")
    at = place([row for _, rows in PEPTIDE for row in rows])
    lines = []
    for residue, (name, rows) in enumerate(PEPTIDE, 1):
        for row in rows:
            x = "".join(f"{10 * value:8.3f}" for value in at[row[0]])
            lines.append(f"ATOM  {row[0]:5d} {row[1]:^4} {name:<3} A{residue:4d}    {x}  1.00  0.00")
    inputs.write(directory, "peptide.pdb", "\n".join(lines) + "\nEND\n")
    gmx(directory, "pdb2gmx", "-f", "peptide.pdb", "-ff", "amber99sb", "-water", "tip3p", "-o",
        "dry.gro", "-p", "box.top", "-i", "posre.itp")
    gmx(directory, "editconf", "-f", "dry.gro", "-bt", "cubic", "-box", width, "-c", "-o", "box.gro")
    gmx(directory, "solvate", "-cp", "box.gro", "-cs", "spc216.gro", "-o", "wet.gro", "-p",
        "box.top")
    top = pathlib.Path(directory) / "box.top"
    return relax(directory, pathlib.Path(directory) / "wet.gro", top), top


def chains(directory, count=180, width=2.4):
    """(gro, top) of short chains by themselves."""
    leat_md.need_program("gmx_d")
    molecule_gro(directory, "one.gro", CHAIN)
    gmx(directory, "insert-molecules", "-ci", "one.gro", "-nmol", count, "-box", width, width,
        width, "-seed", 3, "-radius", "0.13", "-o", "box.gro")
    gro = pathlib.Path(directory) / "box.gro"
    made = sum(number for _, number in counts(gro))
    top = inputs.write(directory, "box.top", CHAIN_TOP.format(count=made))
    return relax(directory, gro, top), top


@functools.lru_cache(maxsize=None)
def kept(maker, settings):
    directory = tempfile.mkdtemp(prefix="leat-box-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return maker(directory, **dict(settings))


def box(directory, maker, changed=None, **settings):
    """(gro, top, mdp) of a maker's box, made once, with settings for this test."""
    gro, top = kept(maker, tuple(sorted(settings.items())))
    return gro, top, inputs.settings(directory, **(changed or {}))
