# SPDX-License-Identifier: Apache-2.0
"""`leat md --data` on several ranks: bits, restart, ids in files and messages, and what is refused."""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import lammps  # noqa: E402
import leat_md  # noqa: E402

BOX = ("--units", "real", "--pair", "lj/cut/coul/cut:6", "--dt", 0.5, "--skin", 1)


def command(directory, *words):
    done = subprocess.run([leat_md.leat_bin(), "md", *map(str, words)], cwd=directory, text=True,
                          capture_output=True, timeout=60, check=False)
    return done.returncode, done.stderr


def box(directory, **options):
    return lammps.molecules(pathlib.Path(directory) / "box.data", **options)


def test_ids_in_any_order_are_the_same_atoms(directory):
    """Forces by id: those of the same box with its atoms numbered otherwise, put back in order."""
    data = box(directory)
    plain = lammps.leat(directory, data, *BOX, "--precision", "double")
    shuffled = pathlib.Path(directory) / "shuffled.data"
    lammps.molecules(shuffled, interleaved=True)
    order = lammps.shuffled_order(len(plain["forces"]))
    for ranks in (1, 2):
        other = lammps.leat(directory, shuffled, *BOX, "--precision", "double", "-n", ranks)
        for row, force in enumerate(plain["forces"]):
            for one, two in zip(force, other["forces"][order[row]]):
                assert abs(one - two) <= 1e-8 * max(1.0, abs(one)), (ranks, row, one, two)


def test_a_run_gives_the_same_bits_and_restarts_to_them(directory):
    data = box(directory, interleaved=True)
    run = (*BOX, "-n", 2, "--steps", 60)
    first = lammps.leat(directory, data, *run, "--out", "one.gro")
    lammps.leat(directory, data, *BOX, "-n", 2, "--steps", 30, "--checkpoint", "state",
                "--rebuild", 20, "--checkpoint-every", 10)
    again = lammps.leat(directory, data, *run, "--out", "two.gro", "--restart", "state")
    assert first["energy"] == again["energy"], (first["energy"], again["energy"])
    assert first["forces"] == again["forces"]
    one, two = ((pathlib.Path(directory) / name).read_bytes() for name in ("one.gro", "two.gro"))
    assert one == two


def test_lists_are_made_anew_before_a_pair_is_missed(directory):
    """A hot box with lists for many steps is a box with lists for one step."""
    data = box(directory)
    often, seldom = (lammps.leat(directory, data, *BOX[:4], "--dt", 1, "--skin", 0.4, "--steps", 40,
                                 "--precision", "double", "--rebuild", steps)
                     for steps in (1, 1000))
    for term in ("lj", "coulomb", "kinetic"):
        one, two = (report["energy"][term] for report in (often, seldom))
        assert abs(one - two) <= 1e-9 * abs(one), (term, one, two)


def test_a_repeated_box_is_so_many_boxes(directory):
    data = box(directory, interleaved=True)
    one = lammps.leat(directory, data, *BOX, "--precision", "double")
    two = lammps.leat(directory, data, *BOX, "--precision", "double", "--tile", "2x1x1", "-n", 2)
    assert abs(two["energy"]["potential"] - 2 * one["energy"]["potential"]) < 1e-7
    count = len(one["forces"])
    for row, force in enumerate(one["forces"]):
        for copy in (row, count + row):
            assert all(abs(a - b) <= 1e-8 * max(1.0, abs(a))
                       for a, b in zip(force, two["forces"][copy])), (row, copy)


def test_a_message_names_an_atom_by_its_id(directory):
    data = box(directory, interleaved=True)
    lines = data.read_text(encoding="ascii").splitlines()
    at = lines.index("Velocities") + 2 + 100
    lines[at] = lines[at].split()[0] + " 9 0 0"
    data.write_text("\n".join(lines) + "\n", encoding="ascii")
    status, text = command(directory, "--data", data, *BOX, "-n", 2, "--steps", 5)
    assert status == 1 and f"atom {lines[at].split()[0]} (mass" in text, (status, text)


def test_arguments_that_do_not_fit_are_refused(directory):
    data = box(directory)
    refused = (
        ((), "--pair lj/cut:2.5"), (("--gro", "a.gro"), "leave --gro out"),
        (("--pair", "lj/cut/coul/cut:6,7"), "they have to be equal"),
        (("--pair", "buck:6"), "pair style 'buck:6'"),
        (("--pair-coeff", "1,2"), "expected I,J,EPSILON,SIGMA"),
        (("--special-bonds", "lj/coul:0,1,0"), "have to be 0 or 1"),
        (("--device", "emulated"), "leave --device out"), (("-D", "X"), "leave -D and -I out"),
    )
    for words, message in refused:
        base = BOX if words else BOX[:2]
        status, text = command(directory, "--data", data, *base, *words)
        assert status == 2 and message in text, (words, status, text)
    status, text = command(directory, "--data", data, *BOX[2:])
    assert status == 2 and "--units lj or real" in text, text
    gro, top, mdp = leat_md.water()
    status, text = command(directory, "--gro", gro, "--top", top, "--mdp", mdp, "--skin", 1)
    assert status == 2 and "--skin is for --data" in text, text
    status, text = command(directory, "--data", "missing.data", *BOX)
    assert status == 1 and "missing.data: No such file" in text, text


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
