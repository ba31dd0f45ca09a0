# SPDX-License-Identifier: Apache-2.0
"""Steps of `leat md --device cuda`, on one GPU and on two where there are two."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import leat_md  # noqa: E402
import md_device  # noqa: E402


def test_two_runs_and_all_modes_give_the_same_bits(directory):
    for device in md_device.devices():
        md_device.gives_the_same_bits(directory, device)


def test_atoms_move_as_on_the_cpu(directory):
    for device in md_device.devices():
        md_device.moves_alike(directory, device)
        md_device.moves_alike(directory, device, **md_device.SUMS)


def test_plain_steps_do_not_wait(directory):
    md_device.counts_no_waits_in_plain_steps(directory, md_device.devices()[0])


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
