# SPDX-License-Identifier: Apache-2.0
"""`leat md --device cuda` beside the CPU on inputs as they stand, on one GPU and on two if there are.

More inputs: LEAT_MD_CASES=DIR with NAME.gro, NAME.top and rf.mdp.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import leat_md  # noqa: E402
import md_device  # noqa: E402


def test_energies_and_forces_are_the_cpus(directory):
    one, *more = md_device.devices()
    md_device.agrees_as_it_stands(directory, one)
    for device in more:
        md_device.agrees_as_it_stands(directory, device)


def test_images_and_other_grids(directory):
    md_device.agrees_with_images(directory, md_device.devices()[-1])


def test_free_atoms_and_excluded_pairs(directory):
    md_device.free_atoms_and_pairs(directory, md_device.devices()[-1])


def test_molecules(directory):
    md_device.molecules_are_the_cpus(directory, md_device.devices()[-1])


def test_constraints_out_of_reach_are_refused(directory):
    md_device.refuses_constraints_out_of_reach(directory, md_device.devices()[-1])


def test_overlapping_atoms_are_refused(directory):
    md_device.refuses_atoms_on_top_of_each_other(directory, md_device.devices()[-1])


def test_double_precision_is_refused(directory):
    device = md_device.devices()[0]
    done = leat_md.Run(directory, leat_md.water(), *device, "--precision", "double")
    assert done.status == 77 and "mixed precision" in done.err, done.err


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
