# SPDX-License-Identifier: Apache-2.0
"""`leat md --check`: right runs pass, in several grids, modes, plans and boxes, and are not changed."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import inputs  # noqa: E402
import leat_md  # noqa: E402


def checked(directory, files, *options):
    done = leat_md.Run(directory, files, "--json", *options)
    return done.report()["checked"]


def test_every_way_of_dividing_the_box_passes(directory):
    files = inputs.argon(directory, edge=9, nsteps="14", nstlist="10", ref_t="90",
                         gen_temp="90", verlet_buffer_tolerance="0.005")
    for options in (("-n", 1), ("-n", 2, "--mode", "resident", "--precision", "double"),
                    ("-n", 1, "--images"), ("-n", 8, "--grid", "2x2x2", "--images"),
                    ("-n", 3, "--grid", "3x1x1", "--plan", "onehop", "--mode", "host"),
                    ("-n", 4, "--order", "xyz", "--mode", "pulse")):
        found = checked(directory, files, "--check", "0,9,13", *options)
        # Step 9 is the last of a list, in which atoms have moved.
        assert found["steps"] == 3 and found["pairs"] > 3 * 20000, (options, found)
        assert (found["ghosts"] > 0) == (options[1] > 1 or "--images" in options), (options, found)
        # Atoms are hot here, and a list may miss some that come in meanwhile.
        assert found["unseen_pairs"] < 100, (options, found)


def test_molecules_pass_and_the_run_is_the_same(directory):
    files = leat_md.water()
    plain = leat_md.run(directory, files, "-n", 4, "--steps", 12)
    done = leat_md.run(directory, files, "-n", 4, "--steps", 12, "--check", 5)
    assert done.report()["checked"]["steps"] == 3 and plain.report()["checked"] is None
    assert done.report()["energy"] == plain.report()["energy"] and done.forces == plain.forces
    text = leat_md.Run(directory, files, "-n", 2, "--steps", 0, "--check", 1)
    assert "checked at 1 step by brute force" in text.out, text.out + text.err


def test_wrong_usage_and_what_is_not_done_are_refused(directory):
    files = leat_md.water()
    for options, words in ((("--check", "0,x"), "expected steps"), (("--check", "1", "--tile", "5x5x4"),
                                                                    "at most"),
                           (("--check", "1", "--device", "emulated"), "--device")):
        done = leat_md.Run(directory, files, "-n", 2, *options)
        lines = [line for line in done.err.splitlines() if words in line]
        assert done.status in (1, 77) and len(lines) == 1, done.err


def test_a_step_that_never_comes_is_refused(directory):
    done = leat_md.Run(directory, leat_md.water(), "--steps", 5, "--check", "3,6")
    assert done.status == 1 and "--check names step 6, but the run ends at step 5" in done.err, done.err


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
