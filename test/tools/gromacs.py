# SPDX-License-Identifier: Apache-2.0
"""GROMACS in double precision (gmx_d) as a peer: preprocessing, reruns, runs, and their results.

Forces and energies are read where they are kept in double: forces from the .trr, energies from
`gmx_d energy -dp`. Advantage: comparisons to 1e-8 and beyond. Disadvantage: a reader of .trr files of
our own; it takes the double-precision kind only.
"""
import os
import pathlib
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import leat_md  # noqa: E402

# Names in `gmx energy` -> names in leat's report; those with the same one are added up.
TERMS = {"LJ (SR)": "lj", "Coulomb (SR)": "coulomb", "Potential": "potential", "Bond": "bond",
         "Angle": "angle", "Proper Dih.": "dihedral", "Ryckaert-Bell.": "ryckaert_bellemans",
         "Fourier Dih.": "ryckaert_bellemans", "Improper Dih.": "improper",
         "Per. Imp. Dih.": "improper", "LJ-14": "lj14", "Coulomb-14": "coulomb14",
         "Kinetic En.": "kinetic", "Total Energy": "total",
         "Conserved En.": "conserved", "Temperature": "temperature", "Pressure": "pressure"}


def gmx(directory, *words, text=None):
    command = ["gmx_d", "-quiet", *map(str, words)]
    done = subprocess.run(command, cwd=directory, input=text, capture_output=True, text=True,
                          timeout=200, check=False,
                          env={**os.environ, "GMX_MAXBACKUP": "-1", "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, " ".join(command) + "\n" + done.stdout + done.stderr
    return done.stdout


def prepare(directory, files):
    """gmx_d grompp; warnings are forgiven, since leat and not the input is under test."""
    leat_md.need_program("gmx_d")
    gro, top, mdp = files
    gmx(directory, "grompp", "-f", mdp, "-c", gro, "-p", top, "-o", "peer.tpr", "-po", "peer.mdp",
        "-maxwarn", "9")


def rerun(directory, files):
    """(energies, forces) of the coordinates as they stand."""
    prepare(directory, files)
    gmx(directory, "mdrun", "-s", "peer.tpr", "-rerun", files[0], "-deffnm", "peer", "-ntmpi", 1,
        "-ntomp", 1)
    return energies(directory)[0], forces(directory)


def steps(directory, files):
    """Energies of every step of a run, as dictionaries."""
    prepare(directory, files)
    gmx(directory, "mdrun", "-s", "peer.tpr", "-deffnm", "peer", "-ntmpi", 1, "-ntomp", 1)
    return energies(directory)


def energies(directory):
    """All that `gmx energy` has, by leat's names or, where leat has none, its own."""
    # Numbers beyond the last term are passed over.
    words = " ".join(map(str, range(1, 100)))
    gmx(directory, "energy", "-f", "peer.edr", "-dp", "-o", "peer.xvg", text=words + "\n\n")
    names, rows = {}, []
    for line in (pathlib.Path(directory) / "peer.xvg").read_text(encoding="utf-8").splitlines():
        if line.startswith("@ s") and "legend" in line:
            names[int(line.split()[1][1:])] = line.split('"')[1]
        elif not line.startswith(("#", "@")):
            rows.append({})
            for i, word in enumerate(line.split()[1:]):
                term = TERMS.get(names[i], names[i])
                rows[-1][term] = rows[-1].get(term, 0.0) + float(word)
    return rows


def plain_forces(directory, files):
    """Forces of the coordinates as they stand, by a step without energies.

    On steps with energies GROMACS takes 1-4 pairs from tables, whose forces are right to some 1e-8;
    on others it computes them. A step so short that nothing moves is such a one.
    """
    mdp = leat_md.with_settings(files[2], pathlib.Path(directory) / "plain.mdp", dt="1e-13",
                                nsteps="2", nstenergy="0", nstcalcenergy="100", nstfout="1",
                                continuation="yes", comm_mode="none")
    prepare(directory, (*files[:2], mdp))
    gmx(directory, "mdrun", "-s", "peer.tpr", "-deffnm", "peer", "-ntmpi", 1, "-ntomp", 1)
    return forces(directory, 1)


def forces(directory, frame=0):
    """Forces of a frame of peer.trr, which has no frame without: XDR, so big-endian."""
    data = (pathlib.Path(directory) / "peer.trr").read_bytes()
    at = 0
    while True:
        magic, _, length = struct.unpack_from(">3i", data, at)
        assert magic == 1993, magic
        at += 12 + (length + 3) // 4 * 4
        sizes = struct.unpack_from(">10i", data, at)
        atoms, _, _ = struct.unpack_from(">3i", data, at + 40)
        assert sizes[2] in (0, 72) and sizes[9] == 24 * atoms, sizes
        at += 40 + 12 + 16 + sum(sizes)
        if frame == 0:
            values = struct.unpack_from(f">{3 * atoms}d", data, at - sizes[9])
            return [values[i:i + 3] for i in range(0, 3 * atoms, 3)]
        frame -= 1
