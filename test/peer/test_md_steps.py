# SPDX-License-Identifier: Apache-2.0
"""Steps of `leat md` against those of `gmx_d mdrun`, in double on both sides.

The buffer is wide enough that neither misses a pair, so what is left is rounding, which grows.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import gromacs  # noqa: E402
import inputs  # noqa: E402
import leat_md  # noqa: E402


def check(directory, files, tolerance):
    leat_md.leat_bin()
    peer = gromacs.steps(directory, files)
    for options in ((), ("-n", 4, "--grid", "2x2x1", "--rank-threads")):
        for step in (1, len(peer) - 1):
            done = leat_md.run(directory, files, "--precision", "double", "--steps", step, *options)
            worst, term = leat_md.step_difference(done.report(), peer[step])
            print(f"step {step}, {' '.join(map(str, options)) or '1 rank'}: {term} within "
                  f"{worst:.1e}")
            assert worst <= tolerance, (step, options, worst, term, peer[step], done.report())


def test_argon_moves_alike(directory):
    check(directory, inputs.argon(directory, nsteps="30", verlet_buffer_tolerance="1e-9"), 2e-9)


def test_water_moves_alike(directory):
    gro, top, _ = leat_md.water()
    mdp = inputs.settings(directory, nsteps="20", verlet_buffer_tolerance="1e-7")
    check(directory, (gro, top, mdp), 2e-9)


def test_water_goes_on_alike(directory):
    gro, top, _ = leat_md.water()
    mdp = inputs.settings(directory, nsteps="20", verlet_buffer_tolerance="1e-7",
                          continuation="yes", nstcomm="5")
    check(directory, (gro, top, mdp), 2e-9)


def test_ions_move_alike_without_removal_of_the_centre(directory):
    gro, top, mdp = inputs.salt_water(directory, nsteps="10", verlet_buffer_tolerance="1e-7",
                                      comm_mode="none", dt="0.001")
    check(directory, (gro, top, mdp), 2e-9)


def test_tilted_boxes_move_alike(directory):
    for shape in ("dodecahedron", "octahedron"):
        gro, top, mdp = inputs.tilted(directory, shape, 2.6, nsteps="20", dt="0.0005", nstlist="5",
                                      verlet_buffer_tolerance="1e-7", gen_vel="no")
        check(directory, (gro, top, mdp), 2e-9)


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
