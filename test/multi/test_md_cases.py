# SPDX-License-Identifier: Apache-2.0
"""`leat md` on inputs with known answers: oracle, precisions, ranks, grids, modes, orders.

Tolerances are those of the cases: 1e-8 in double precision, 1e-5 in mixed. Ranks are processes here
and there and threads (--rank-threads) elsewhere.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import leat_md  # noqa: E402

GRIDS = [(8, "8x1x1"), (8, "4x2x1"), (8, "2x2x2")]
MODES = ("fused", "host", "stream", "pulse", "resident")
PLANS = ("forwarded", "onehop")
DOUBLE, MIXED = ("--precision", "double"), ("--precision", "mixed")


def check(directory, name, tolerance, *options):
    done = leat_md.run(directory, leat_md.shared_case(name), *options)
    leat_md.assert_reference(done, name, tolerance)
    return done.report()


def test_oracle_gives_the_reference(directory):
    for name in ("two", "water5k"):
        check(directory, name, 1e-8, "--oracle")


def test_one_rank_gives_the_reference(directory):
    for name in ("two", "water5k"):
        check(directory, name, 1e-8, *DOUBLE)
        check(directory, name, 1e-5, *MIXED)


def test_ranks_as_processes_give_the_reference(directory):
    for ranks in (2, 4, 8):
        report = check(directory, "water5k", 1e-8, *DOUBLE, "-n", ranks)
        assert report["ranks"] == ranks
        check(directory, "water5k", 1e-5, *MIXED, "-n", ranks)


def test_grids_and_modes_give_the_reference_in_double(directory):
    for ranks, grid in GRIDS:
        for mode in MODES:
            report = check(directory, "water5k", 1e-8, *DOUBLE, "-n", ranks, "--grid", grid,
                           "--mode", mode, "--rank-threads")
            assert report["grid"] == [int(n) for n in grid.split("x")]
            assert (report["mode"], report["plan"]) == (mode, "forwarded")


def test_grids_and_modes_give_the_reference_in_mixed(directory):
    for ranks, grid in GRIDS:
        for mode in MODES:
            check(directory, "water5k", 1e-5, *MIXED, "-n", ranks, "--grid", grid, "--mode", mode)


def test_onehop_plans_give_the_reference(directory):
    for mode, (ranks, grid) in zip(MODES, [*GRIDS, (4, "2x2x1"), (2, "1x1x2")]):
        split = ("-n", ranks, "--grid", grid, "--plan", "onehop", "--mode", mode)
        report = check(directory, "water5k", 1e-8, *DOUBLE, *split, "--rank-threads")
        assert (report["mode"], report["plan"]) == (mode, "onehop")
        check(directory, "water5k", 1e-5, *MIXED, *split)


def test_plans_agree_to_rounding(directory):
    files = leat_md.shared_case("water5k")
    for ranks, grid in GRIDS:
        runs = [leat_md.run(directory, files, *DOUBLE, "-n", ranks, "--grid", grid, "--plan", plan,
                            "--rank-threads") for plan in PLANS]
        leat_md.assert_agrees(runs[1], 1e-12, runs[0].report()["energy"], runs[0].forces)


def test_both_orders_of_dimensions_give_the_reference(directory):
    for order in ("zyx", "xyz"):
        for grid in ("4x2x1", "2x2x2"):
            check(directory, "water5k", 1e-8, *DOUBLE, "-n", 8, "--grid", grid, "--order", order,
                  "--rank-threads")


def test_empty_domains_change_nothing(directory):
    for ranks, grid in [(4, "2x2x1"), *GRIDS]:
        for mode in MODES:
            split = ("-n", ranks, "--grid", grid, "--mode", mode)
            check(directory, "two", 1e-8, *DOUBLE, *split)
            check(directory, "two", 1e-5, *MIXED, *split, "--rank-threads", "--plan", "onehop")


def test_a_domain_thinner_than_the_cutoff_takes_several_pulses(directory):
    # 3.72 nm over eleven domains: the halo of each reaches over three neighbours.
    for plan in PLANS:
        check(directory, "water5k", 1e-8, *DOUBLE, "-n", 11, "--grid", "1x11x1", "--rank-threads",
              "--plan", plan)


def test_ghosts_across_all_boundaries_change_nothing(directory):
    for ranks, grid in [(1, "1x1x1"), (2, "1x2x1"), (8, "2x2x2")]:
        split = ("-n", ranks, "--grid", grid, "--images")
        for plan in PLANS:
            report = check(directory, "water5k", 1e-8, *DOUBLE, *split, "--plan", plan)
        check(directory, "two", 1e-5, *MIXED, *split, "--rank-threads")
    # On one rank, what it sends to itself.
    assert {row["path"]: row for row in report["paths"]}["shm"]["bytes"] > 0


def test_the_report_has_what_it_promises(directory):
    report = check(directory, "two", 1e-5, "-n", 2, "--stats")
    assert report["schema"] == "leat.md/1"
    assert (report["atoms"], report["ranks"], report["steps"]) == (6, 2, 0)
    assert report["device"] == "cpu" and report["precision"] == "mixed"
    assert set(report["energy"]) == {
        "lj", "coulomb", "bond", "angle", "dihedral", "ryckaert_bellemans", "improper", "lj14",
        "coulomb14", "potential", "kinetic", "total", "conserved"}
    assert set(report["us_per_step"]) == {
        "median", "halo", "nonbonded_local", "nonbonded_nonlocal", "bonded", "update", "list",
        "other"}
    for term in ("pressure_bar", "virial", "drift_kj_mol_ps_atom", "ns_per_day"):
        assert report[term] is None, term
    paths = {row["path"]: row for row in report["paths"]}
    assert paths["shm"]["bytes"] > 0 and paths["shm"]["ops"] > 0
    assert all(row["reason"] for row in report["paths"])
    assert len(report["net_force"]) == 3


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
