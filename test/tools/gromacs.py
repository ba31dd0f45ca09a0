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

# Names in `gmx energy` -> names in leat's report.
TERMS = {"LJ (SR)": "lj", "Coulomb (SR)": "coulomb", "Potential": "potential",
         "Kinetic En.": "kinetic", "Total Energy": "total", "Temperature": "temperature",
         "Pressure": "pressure"}


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
    return energies(directory, ("LJ (SR)", "Coulomb (SR)", "Potential"))[0], forces(directory)


def steps(directory, files):
    """Energies of every step of a run, as dictionaries."""
    prepare(directory, files)
    gmx(directory, "mdrun", "-s", "peer.tpr", "-deffnm", "peer", "-ntmpi", 1, "-ntomp", 1)
    return energies(directory, TERMS)


def energies(directory, terms):
    words = "\n".join(term.replace(" ", "-") for term in terms)
    gmx(directory, "energy", "-f", "peer.edr", "-dp", "-o", "peer.xvg", text=words + "\n\n")
    names, rows = {}, []
    for line in (pathlib.Path(directory) / "peer.xvg").read_text(encoding="utf-8").splitlines():
        if line.startswith("@ s") and "legend" in line:
            names[int(line.split()[1][1:])] = line.split('"')[1]
        elif not line.startswith(("#", "@")):
            values = [float(word) for word in line.split()]
            rows.append({TERMS[names[i]]: value for i, value in enumerate(values[1:])})
    return rows


def forces(directory):
    """Forces of the first frame of peer.trr: XDR, so big-endian."""
    data = (pathlib.Path(directory) / "peer.trr").read_bytes()
    magic, _, length = struct.unpack_from(">3i", data, 0)
    assert magic == 1993, magic
    at = 12 + (length + 3) // 4 * 4
    sizes = struct.unpack_from(">10i", data, at)
    box_bytes, virial_bytes, pressure_bytes = sizes[2:5]
    x_bytes, v_bytes, f_bytes = sizes[7:10]
    atoms, _, _ = struct.unpack_from(">3i", data, at + 40)
    assert box_bytes in (0, 72) and f_bytes == 24 * atoms, sizes
    at += 40 + 12 + 16 + box_bytes + virial_bytes + pressure_bytes + x_bytes + v_bytes
    values = struct.unpack_from(f">{3 * atoms}d", data, at)
    return [values[i:i + 3] for i in range(0, 3 * atoms, 3)]
