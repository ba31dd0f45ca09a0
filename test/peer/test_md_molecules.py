# SPDX-License-Identifier: Apache-2.0
"""Every energy and all forces of boxes of molecules against `gmx_d mdrun -rerun`, live.

Each box is evaluated by all pairs, and on 1, 2 and 8 ranks in either precision and in two modes.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import gromacs  # noqa: E402
import leat_md  # noqa: E402
import molecules  # noqa: E402

DOUBLE = ("--precision", "double")
MIXED = ("--precision", "mixed")
# Ghosts across all boundaries let domains be as thin as these boxes need.
SMALL = ("--images",)
SPLITS = ((*DOUBLE, "-n", 1), (*MIXED, "-n", 2, "--mode", "host"),
          (*DOUBLE, "-n", 2, "--grid", "1x2x1", "--rank-threads"), (*MIXED, "-n", 1),
          (*DOUBLE, "-n", 8, "--grid", "2x2x2", "--rank-threads", "--mode", "host"),
          (*MIXED, "-n", 8, "--grid", "2x2x2", "--rank-threads"))
ALCOHOL = ("bond", "angle", "ryckaert_bellemans", "lj14", "coulomb14")
PEPTIDE = ("bond", "angle", "dihedral", "improper", "lj14", "coulomb14")


def check(directory, files, terms, splits=SPLITS, more=(), plain_forces=False):
    """`terms` are those that the box has to have for the test to be worth its name."""
    leat_md.leat_bin()
    energy, forces = gromacs.rerun(directory, files)
    for term in terms:
        assert abs(energy.get(term, 0.0)) > 0.1, (term, energy)
    if plain_forces:
        forces = gromacs.plain_forces(directory, files)
    leat_md.assert_agrees(leat_md.run(directory, files, "--oracle"), 1e-8, energy, forces)
    for options in splits:
        done = leat_md.run(directory, files, "--steps", 0, *options, *more)
        leat_md.assert_agrees(done, 1e-8 if "double" in options else 1e-5, energy, forces)


def ethanol(directory, changed=None):
    return molecules.box(directory, molecules.alcohol, changed, width=3.0, count=40)


def test_ethanol_with_rigid_water(directory):
    check(directory, ethanol(directory), ALCOHOL)


def test_ethanol_with_flexible_water(directory):
    check(directory, ethanol(directory, {"define": "-DFLEXIBLE"}), ALCOHOL)


def test_ethanol_with_constraints(directory):
    # Bonds that are constraints have no energy.
    check(directory, ethanol(directory, {"constraints": "h-bonds"}), ALCOHOL, SPLITS[1:3])
    check(directory, ethanol(directory, {"constraints": "all-bonds"}), ALCOHOL[1:], SPLITS[4:])


def test_ethanol_with_a_charge_too_many(directory):
    files = molecules.box(directory, molecules.alcohol, ions=("NA", "CL", "NA"))
    check(directory, files, ALCOHOL, SPLITS[:2] + SPLITS[4:], SMALL)


def test_ethanol_without_charges(directory):
    files = molecules.box(directory, molecules.alcohol, charged=False)
    check(directory, files, ALCOHOL[:-1], SPLITS[:2] + SPLITS[4:], SMALL)


def test_ethanol_in_tilted_boxes(directory):
    for shape, grid in (("dodecahedron", "1x2x2"), ("octahedron", "2x2x1")):
        files = molecules.box(directory, molecules.alcohol, shape=shape, width=2.5)
        check(directory, files, ALCOHOL, (
            (*MIXED, "-n", 2, "--mode", "host"),
            (*DOUBLE, "-n", 4, "--grid", grid, "--rank-threads"),
            (*MIXED, "-n", 8, "--grid", "2x2x2", "--rank-threads")))


def test_methanol(directory):
    # The hydroxyl's hydrogen, at the end of every 1-4 pair, has no Lennard-Jones interaction.
    files = molecules.box(directory, molecules.alcohol, kind="methanol")
    check(directory, files, ("bond", "angle", "ryckaert_bellemans", "coulomb14"), SPLITS[:3], SMALL)


def test_propanol_in_a_dielectric(directory):
    dielectric = {"epsilon_r": "2", "epsilon_rf": "30", "vdw_modifier": "none"}
    files = molecules.box(directory, molecules.alcohol, dielectric, kind="1propanol", water="tip3p")
    check(directory, files, ALCOHOL, SPLITS[2:5], SMALL)


def test_a_peptide(directory):
    check(directory, molecules.box(directory, molecules.peptide), PEPTIDE, SPLITS, SMALL)


def test_chains_of_c6_and_c12(directory):
    check(directory, molecules.box(directory, molecules.chains), PEPTIDE, SPLITS, SMALL,
          plain_forces=True)


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
