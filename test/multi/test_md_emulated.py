# SPDX-License-Identifier: Apache-2.0
"""The kernels that `leat md` runs on a GPU, on the CPU: the checks of test/gpu/test_md_cuda.py."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import leat_md  # noqa: E402
import md_device  # noqa: E402

DEVICE = ("--device", "emulated", "--rank-threads")
PROCESSES = ("--device", "emulated")


def test_energies_and_forces_are_the_cpus(directory):
    md_device.agrees_as_it_stands(directory, DEVICE, modes=("fused", "host"))


def test_images_and_other_grids(directory):
    md_device.agrees_with_images(directory, PROCESSES)


def test_two_runs_and_all_modes_give_the_same_bits(directory):
    md_device.gives_the_same_bits(directory, PROCESSES, steps=24, modes=("fused", "resident"))


def test_atoms_move_as_on_the_cpu(directory):
    md_device.moves_alike(directory, PROCESSES, steps=24)
    md_device.moves_alike(directory, DEVICE, steps=24, **md_device.SUMS)


def test_free_atoms_and_excluded_pairs(directory):
    md_device.free_atoms_and_pairs(directory, PROCESSES)


def test_molecules(directory):
    md_device.molecules_are_the_cpus(directory, DEVICE)


def test_constraints_out_of_reach_are_refused(directory):
    md_device.refuses_constraints_out_of_reach(directory, DEVICE)


def test_plain_steps_do_not_wait(directory):
    md_device.counts_no_waits_in_plain_steps(directory, PROCESSES)


def test_overlapping_atoms_are_refused(directory):
    md_device.refuses_atoms_on_top_of_each_other(directory, DEVICE)


def test_double_precision_is_refused(directory):
    done = leat_md.Run(directory, leat_md.water(), *DEVICE, "--precision", "double")
    assert done.status == 77 and "mixed precision" in done.err, done.err


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
