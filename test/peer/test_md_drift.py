# SPDX-License-Identifier: Apache-2.0
"""Drift of the conserved energy over 20 ps of water, in mixed precision, on two ranks."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import leat_md  # noqa: E402


def test_water_drifts_less_than_it_may(directory):
    files = leat_md.shared_case("water5k", "nve.mdp")
    done = leat_md.run(directory, files, "-n", 2, "--drift-after", 2, timeout=280)
    report = done.report()
    assert report["steps"] == 11000 and report["precision"] == "mixed"
    print(f"{report['drift_kj_mol_ps_atom']:.2e} kJ/mol/ps/atom")
    assert abs(report["drift_kj_mol_ps_atom"]) < 0.001


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
