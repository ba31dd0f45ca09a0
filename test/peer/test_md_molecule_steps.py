# SPDX-License-Identifier: Apache-2.0
"""Steps of molecules against those of `gmx_d mdrun`, in double on both sides: leap-frog and velocity
Verlet, flexible and with constraints.

Advantage: pressure shows the constraints' virial, the conserved energy and the temperature their
degrees of freedom. Disadvantage: GROMACS' own constraints are iterated, so they are made as tight as
its options allow.
"""
import csv
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import gromacs  # noqa: E402
import leat_md  # noqa: E402
import molecules  # noqa: E402

# A list that nothing enters in its life.
STEPS = {"verlet_buffer_tolerance": "-1", "rlist": "1.12", "nstlist": "5", "nsteps": "20"}
LINCS = {"constraint_algorithm": "lincs", "lincs_order": "12", "lincs_iter": "8"}
SHAKE = {"constraint_algorithm": "shake", "shake_tol": "1e-12"}
SPLIT = ("-n", 4, "--grid", "2x2x1", "--rank-threads", "--images")


def rows(path, atoms):
    """Steps of an energy table, each like a report."""
    with open(path, encoding="ascii") as file:
        for row in csv.DictReader(file):
            values = {key: float(value) for key, value in row.items()}
            yield {**values, "atoms": atoms,
                   "energy": {key[:-len("_kj_mol")]: value for key, value in values.items()
                              if key.endswith("_kj_mol")},
                   "coulomb_gross": values["coulomb_gross_kj_mol"]}


def check(directory, files, tolerance=2e-9, splits=((), SPLIT)):
    """Every step from the first on."""
    leat_md.leat_bin()
    peer = gromacs.steps(directory, files)
    table = pathlib.Path(directory) / "energies.csv"
    for options in splits:
        done = leat_md.run(directory, files, "--precision", "double", "--energies", table, *options)
        found = list(rows(table, done.report()["atoms"]))
        assert len(found) == len(peer) == done.report()["steps"] + 1, (len(found), len(peer))
        worst = [leat_md.step_difference(*both) for both in zip(found, peer)]
        print(f"{' '.join(map(str, options)) or '1 rank'}: within {max(worst)[0]:.1e}, {max(worst)[1]}"
              f" of step {worst.index(max(worst))}")
        assert max(worst)[0] <= tolerance, (done.command, worst)


def alcohol(directory, changed, **settings):
    return molecules.box(directory, molecules.alcohol, {**STEPS, **changed}, **settings)


def test_flexible_ethanol_moves_alike(directory):
    files = alcohol(directory, {"define": "-DFLEXIBLE", "dt": "0.0005"})
    check(directory, files)


def test_flexible_ethanol_moves_alike_by_velocity_verlet(directory):
    files = alcohol(directory, {"define": "-DFLEXIBLE", "dt": "0.0005", "integrator": "md-vv"})
    check(directory, files)


def test_ethanol_with_rigid_hydrogens_moves_alike(directory):
    check(directory, alcohol(directory, {"constraints": "h-bonds", **LINCS}))


def test_ethanol_with_rigid_bonds_moves_alike(directory):
    check(directory, alcohol(directory, {"constraints": "all-bonds", **SHAKE}))


def test_ethanol_with_rigid_hydrogens_moves_alike_by_velocity_verlet(directory):
    changed = {"constraints": "h-bonds", "integrator": "md-vv", **LINCS}
    check(directory, alcohol(directory, changed))


def test_a_peptide_moves_alike(directory):
    files = molecules.box(directory, molecules.peptide,
                          {**STEPS, "constraints": "all-bonds", **SHAKE})
    check(directory, files)


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
