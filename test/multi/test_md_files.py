# SPDX-License-Identifier: Apache-2.0
"""Files that `leat md` writes while it goes: which steps they hold, and what becomes of errors."""
import csv
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import faults  # noqa: E402
import inputs  # noqa: E402
import leat_md  # noqa: E402
import trr  # noqa: E402


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_energies_have_a_row_at_nstenergy_and_at_the_last_step(directory):
    gro, top, mdp = leat_md.water()
    settings = leat_md.with_settings(mdp, pathlib.Path(directory) / "run.mdp", nstenergy=20,
                                     nstcalcenergy=10)
    done = leat_md.run(directory, (gro, top, settings), "-n", 2, "--steps", 50,
                       "--energies", "energies.csv")
    rows = rows_of(pathlib.Path(directory) / "energies.csv")
    assert [int(row["step"]) for row in rows] == [0, 20, 40, 50]
    report = done.report()
    for name in ("lj", "coulomb", "potential", "kinetic", "total", "conserved"):
        assert float(rows[-1][name + "_kj_mol"]) == report["energy"][name], name
    assert float(rows[-1]["pressure_bar"]) == report["pressure_bar"]
    assert float(rows[-1]["temperature_k"]) == report["temperature_k"]
    assert abs(float(rows[-1]["time_ps"]) - 0.1) < 1e-15
    assert 0 < float(rows[-1]["net_force_kj_mol_nm"]) < 1


def test_a_look_at_the_coordinates_is_one_row_without_pressure(directory):
    leat_md.run(directory, leat_md.water(), "--steps", 0, "--energies", "energies.csv")
    rows = rows_of(pathlib.Path(directory) / "energies.csv")
    assert [row["step"] for row in rows] == ["0"] and rows[0]["pressure_bar"] == ""


def test_a_full_disk_is_named(directory):
    for ranks in (1, 2):
        done = leat_md.Run(directory, leat_md.water(), "-n", ranks, "--steps", 0,
                           "--energies", "/dev/full")
        assert done.status == 1 and "/dev/full: at byte 0: No space left" in done.err, done.err


PACES = {"nstlist": "10", "nstxout": "8", "nstvout": "12", "nstfout": "18",
         "nstcalcenergy": "10"}


def paced(directory, **changed):
    gro, top, mdp = leat_md.water()
    return gro, top, leat_md.with_settings(mdp, pathlib.Path(directory) / "run.mdp",
                                           **{**PACES, **changed})


def test_frames_come_at_their_steps_and_change_nothing(directory):
    water, argon = paced(directory), inputs.argon(directory, **PACES)
    for options, files in ((("-n", 1), water), (("-n", 2, "--precision", "double"), water),
                           (("-n", 2, "--device", "emulated"), argon)):
        run = (*options, "--steps", 30)
        plain = leat_md.run(directory, files, *run)
        done = leat_md.run(directory, files, *run, "--trajectory", "run.trr")
        assert done.report()["energy"] == plain.report()["energy"], options
        assert done.forces == plain.forces, options
        found = [(step, "".join(name for name in "xvf" if name in arrays))
                 for step, _, arrays in trr.frames(pathlib.Path(directory) / "run.trr")]
        assert found == [(0, "xvf"), (8, "x"), (12, "v"), (16, "x"), (18, "f"), (24, "xv"),
                         (30, "xv")], found
        bytes_ = (pathlib.Path(directory) / "run.trr").stat().st_size
        carried = {path["path"]: path["bytes"] for path in done.report()["paths"]}
        assert carried["buffered"] >= bytes_, (carried, bytes_)


def test_the_last_frame_is_the_last_step(directory):
    done = leat_md.run(directory, paced(directory, nstfout=15), "-n", 2, "--steps", 30,
                       "--precision", "double", "--trajectory", "run.trr", "--out", "out.gro")
    step, _, arrays = trr.frames(pathlib.Path(directory) / "run.trr")[-1]
    assert step == 30
    forces = [value for force in done.forces for value in force]
    assert all(abs(a - b) <= 1e-13 * abs(b) for a, b in zip(arrays["f"], forces))
    lines = (pathlib.Path(directory) / "out.gro").read_text(encoding="utf-8").splitlines()[2:-1]
    x = [float(line[20 + 8 * d:28 + 8 * d]) for line in lines for d in range(3)]
    v = [float(line[44 + 8 * d:52 + 8 * d]) for line in lines for d in range(3)]
    assert all(abs(a - b) <= 5.001e-4 for a, b in zip(arrays["x"], x))
    assert all(abs(a - b) <= 5.001e-5 for a, b in zip(arrays["v"], v))


def test_frames_of_gro_follow_one_another(directory):
    for ranks in (1, 3):
        leat_md.run(directory, paced(directory), "-n", ranks, "--steps", 30, "--trajectory",
                    "run.gro", "--out", "out.gro")
        text = (pathlib.Path(directory) / "run.gro").read_text(encoding="utf-8").splitlines()
        frames = [text[at:at + 3003] for at in range(0, len(text), 3003)]
        assert [frame[0].split("step=")[1].strip() for frame in frames] == ["0", "8", "16", "24",
                                                                            "30"]
        assert [len(frame[2]) for frame in frames] == [68, 44, 44, 68, 68]
        last = (pathlib.Path(directory) / "out.gro").read_text(encoding="utf-8").splitlines()
        assert frames[-1][1:] == last[1:]


def test_a_trajectory_that_is_asked_for_and_not_written_is_noted(directory):
    files = inputs.argon(directory, nsteps="2", nstxout="1")
    assert "written with --trajectory only" in leat_md.Run(directory, files).err
    done = leat_md.Run(directory, files, "--trajectory", "run.trr")
    assert done.status == 0 and not done.err, done.err


def test_a_minimisation_has_no_trajectory_and_no_checkpoint(directory):
    files = inputs.argon(directory, nsteps="5", integrator="steep", gen_vel="no")
    for option in ("--trajectory", "--checkpoint"):
        done = leat_md.Run(directory, files, option, "file.trr")
        assert done.status in (1, 77) and "for steps in time" in done.err, done.err
        assert not (pathlib.Path(directory) / "file.trr").exists()


def test_an_error_of_writing_frames_names_file_and_byte(directory):
    files = inputs.argon(directory, nsteps="40", nstxout="1")
    library = faults.library(directory)
    for ranks in (1, 2):
        done = leat_md.Run(directory, files, "-n", ranks, "--rank-threads", "--trajectory",
                           "run.trr", env={"LD_PRELOAD": library, "FAULT": "pwrite run.trr 9 28"})
        assert done.status == 1, done.err
        assert re.search(r"run.trr: cannot write \d+ bytes at offset \d+: No space left", done.err), \
            done.err


def refused(directory, words, *options):
    done = leat_md.Run(directory, leat_md.water(), "--steps", 20, *options)
    assert done.status == 1 and words in done.err, (options, done.status, done.err)


def test_two_outputs_are_not_one_file(directory):
    (pathlib.Path(directory) / "o").mkdir()
    both = "both write"
    refused(directory, both, "--energies", "o/a", "--trajectory", "o/a")
    refused(directory, both, "--energies", "o/./b", "--out", "o/../o/b")
    refused(directory, both, "--forces", "o/c", "--energies", "o/c")
    refused(directory, both, "--checkpoint", "o/d", "--trajectory", "o/d.prev")
    refused(directory, both, "--checkpoint", "o/e", "--energies", "o/e.tmp")
    assert not list((pathlib.Path(directory) / "o").iterdir())
    done = leat_md.Run(directory, leat_md.water(), "--steps", 0, "--energies", "/dev/null",
                       "--forces", "/dev/null")
    assert done.status == 0, done.err


def test_an_output_does_not_take_the_place_of_an_input(directory):
    gro, top, mdp = leat_md.water()
    for option, path in (("--energies", gro), ("--trajectory", top), ("--checkpoint", mdp)):
        before = pathlib.Path(path).read_bytes()
        refused(directory, f"{option} would write over {path}", option, path)
        assert pathlib.Path(path).read_bytes() == before


def test_what_stands_beside_a_checkpoint_is_not_lost(directory):
    place = pathlib.Path(directory)
    for suffix in (".prev", ".tmp"):
        other = place / ("a.cpt" + suffix)
        other.write_text("somebody's words\n")
        refused(directory, f"a.cpt{suffix}, which is there and is no checkpoint",
                "--checkpoint", "a.cpt")
        assert other.read_text() == "somebody's words\n"
        other.unlink()
        (place / "target").write_text("")
        other.symlink_to(place / "target")
        refused(directory, f"a.cpt{suffix}, which is no regular file", "--checkpoint", "a.cpt")
        other.unlink()


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
