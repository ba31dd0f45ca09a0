# SPDX-License-Identifier: Apache-2.0
"""`leat md --threads`: the same number of threads gives the same bits, any number the same physics."""
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import leat_md  # noqa: E402

DOUBLE = ("--precision", "double")


def outcome(directory, *options):
    done = leat_md.run(directory, leat_md.water(), "--out", "out.gro", *options)
    coordinates = (pathlib.Path(directory) / "out.gro").read_text(encoding="utf-8")
    forces = pathlib.Path(done.forces_path).read_text(encoding="utf-8")
    return done.report()["energy"], coordinates, forces


def test_energies_do_not_depend_on_the_threads(directory):
    one = outcome(directory, "-n", 2, "--steps", 0, *DOUBLE)
    for threads in (2, 3, 0):
        more = outcome(directory, "-n", 2, "--steps", 0, "--threads", threads, *DOUBLE)
        assert more[0].keys() == one[0].keys()
        for term, value in one[0].items():
            if isinstance(value, float):
                assert math.isclose(more[0][term], value, rel_tol=1e-10, abs_tol=1e-6), term


def test_the_same_threads_give_the_same_bits(directory):
    for threads in (1, 2, 3):
        run = ("-n", 2, "--steps", 25, "--threads", threads)
        first = outcome(directory, *run)
        assert outcome(directory, *run) == first, f"{threads} threads"
        assert outcome(directory, *run, "--rank-threads") == first, f"{threads} threads, as threads"


def test_modes_agree_to_the_bit_with_threads(directory):
    run = ("-n", 4, "--grid", "2x2x1", "--steps", 25, "--threads", 2)
    first = outcome(directory, *run)
    for mode in ("host", "resident"):
        assert outcome(directory, *run, "--mode", mode) == first, mode


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
