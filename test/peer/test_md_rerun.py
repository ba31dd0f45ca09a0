# SPDX-License-Identifier: Apache-2.0
"""Energies and forces of `leat md` against `gmx_d mdrun -rerun`, live, on inputs made here."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import gromacs  # noqa: E402
import inputs  # noqa: E402
import leat_md  # noqa: E402

DOUBLE = ("--precision", "double", "--steps", 0)
MIXED = ("--precision", "mixed", "--steps", 0)


def check(directory, files, grids=("2x1x1", "2x2x2"), options=()):
    leat_md.leat_bin()
    energy, forces = gromacs.rerun(directory, files)
    runs = [(1e-8, ("--oracle",)), (1e-8, (*DOUBLE, *options)), (1e-5, (*MIXED, *options))]
    for grid in grids:
        ranks = 1
        for n in grid.split("x"):
            ranks *= int(n)
        split = ("-n", ranks, "--grid", grid, "--rank-threads", *options)
        runs += [(1e-8, (*DOUBLE, *split)), (1e-5, (*MIXED, *split))]
    for tolerance, options in runs:
        leat_md.assert_agrees(leat_md.run(directory, files, *options), tolerance, energy, forces)


def test_argon(directory):
    check(directory, inputs.argon(directory))


def test_argon_with_a_plain_cutoff(directory):
    check(directory, inputs.argon(directory, vdw_modifier="none"))


def test_a_slab_of_water_under_vacuum(directory):
    check(directory, inputs.slab(directory), grids=("2x1x1", "1x1x5", "2x2x4"))


def test_water_with_ions(directory):
    check(directory, inputs.salt_water(directory))


def test_a_finite_dielectric_outside(directory):
    check(directory, inputs.salt_water(directory, epsilon_rf="78", rcoulomb="0.8", rvdw="0.8"))


def test_a_dielectric_inside(directory):
    check(directory, inputs.slab(directory, epsilon_r="2", epsilon_rf="30"), grids=("2x2x1",))


def test_a_long_cutoff(directory):
    check(directory, inputs.slab(directory, rcoulomb="1.4", rvdw="1.4"), grids=("1x1x4",))


def test_a_dodecahedron(directory):
    check(directory, inputs.tilted(directory, "dodecahedron"), grids=("2x1x1", "1x2x2", "2x2x2"))


def test_an_octahedron(directory):
    check(directory, inputs.tilted(directory, "octahedron"), grids=("1x1x2", "2x2x1", "2x2x2"))


def test_tilted_boxes_on_onehop_plans(directory):
    for shape in ("dodecahedron", "octahedron"):
        files = inputs.tilted(directory, shape, 2.2)
        check(directory, files, grids=("1x1x2", "2x2x2"), options=("--plan", "onehop"))


def test_images_in_an_upright_box(directory):
    check(directory, inputs.salt_water(directory), grids=("2x1x1",), options=("--images",))


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
