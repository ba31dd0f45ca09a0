# SPDX-License-Identifier: Apache-2.0
"""`leat compare` of what runs really write: equal, equal within rounding, different."""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import leat_md  # noqa: E402


def compare(directory, status, *arguments):
    done = subprocess.run([leat_md.leat_bin(), "compare", *map(str, arguments)], cwd=directory,
                          capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def run(directory, name, *options, **settings):
    gro, top, mdp = leat_md.water()
    mdp = leat_md.with_settings(mdp, pathlib.Path(directory) / "run.mdp", nstenergy=10,
                                nstcalcenergy=10, **settings)
    done = leat_md.Run(directory, (gro, top, mdp), "--json", "--steps", 20, "--energies",
                       name + ".csv", "--out", name + ".gro", "--forces", name + ".f", *options)
    done.report()
    (pathlib.Path(directory) / (name + ".json")).write_text(done.out, encoding="utf-8")


KINDS = ("json", "csv", "gro", "f")


def test_runs_agree_to_the_bit_or_within_rounding_or_not(directory):
    run(directory, "one")
    run(directory, "again")
    run(directory, "four", "-n", 4)
    run(directory, "other", dt="0.0021")
    for kind in KINDS:
        compare(directory, 0, f"again.{kind}", f"one.{kind}", "--exact")
        compare(directory, 0, f"four.{kind}", f"one.{kind}")
        compare(directory, 1, f"four.{kind}", f"one.{kind}", "--exact")
        out = compare(directory, 1, f"other.{kind}", f"one.{kind}").stdout
        assert "DIFFERS" in out and "The files differ." in out, out
    report = json.loads(compare(directory, 1, "other.csv", "one.csv", "--json").stdout)
    assert report["schema"] == "leat.compare/1" and report["equal"] is False, report
    rows = {row["what"]: row for row in report["rows"]}
    assert rows["kinetic"]["differs"] and rows["kinetic"]["first_step"] == 0, rows["kinetic"]
    assert report["compared"] == 3 and not rows["volume_nm3"]["differs"]
    # Files that nobody can compare are no difference.
    assert "nothing to compare" in compare(directory, 2, "one.csv", "one.gro").stderr
    assert "absent.gro" in compare(directory, 2, "absent.gro", "one.gro").stderr


def test_a_report_is_compared_with_a_reference_of_gromacs(directory):
    files = leat_md.shared_case("water5k")
    done = leat_md.Run(directory, files, "--json", "--steps", 0, "--precision", "double")
    done.report()
    (pathlib.Path(directory) / "run.json").write_text(done.out, encoding="utf-8")
    reference = files[0].parent / "water5k.ref.json"
    compare(directory, 0, "run.json", reference, "--tolerance", "1e-8")
    compare(directory, 1, "run.json", reference, "--exact")


def test_wrong_usage_is_status_two(directory):
    for arguments in ((), ("a",), ("a", "b", "c"), ("a", "b", "--exact", "--tolerance", "1"),
                      ("a", "b", "--skip-ps", "1"), ("a", "b", "--tolerance", "x")):
        assert compare(directory, 2, *arguments).stdout == ""


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
