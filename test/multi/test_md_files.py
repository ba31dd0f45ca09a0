# SPDX-License-Identifier: Apache-2.0
"""Files that `leat md` writes while it goes: which steps they hold, and what becomes of errors."""
import csv
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import leat_md  # noqa: E402


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


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
