# SPDX-License-Identifier: Apache-2.0
"""`leat bench p2p|coll|memory|flood` beside Open MPI and MPICH: what the reports say, live.

Every side checks the bytes it gets and a wrong one ends the command, so status 0 says that data were
right. Advantage: the very programs that are compared run. Disadvantage: slices this short say
nothing of speed, and nothing here asks for one.
"""
import json
import math
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import leat_md  # noqa: E402

PEERS = ("openmpi", "mpich")
BOTH = ("--against", "openmpi,mpich")
BRIEF = ("--rounds", 1, "--slice", 2)
MIB = 1 << 20


def need_peers():
    for peer in PEERS:
        leat_md.need_program(f"mpirun.{peer}")
        program = pathlib.Path(leat_md.leat_bin()).parent / f"leat-peer-{peer}-msg"
        if not program.exists():
            raise leat_md.Skip(f"{program} was not built: mpicc.{peer} was not there")


def command(directory, *arguments, status=0, **env):
    """Runs `leat bench`, without a settings file or a setting from outside."""
    outside = {k: v for k, v in os.environ.items() if not k.startswith("LEAT_")}
    words = [leat_md.leat_bin(), "bench", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False,
                          cwd=directory, env={**outside, "HOME": directory, **env})
    assert done.returncode == status, f"status {done.returncode} of {words}\n{done.stderr}"
    return done


def report(directory, *arguments, **env):
    """(the report, its benchmarks by name)"""
    content = json.loads(command(directory, *arguments, "--json", **env).stdout)
    assert content["schema"] == "leat.bench/1", content["schema"]
    entries = {entry["name"]: entry for entry in content["benchmarks"]}
    assert len(entries) == len(content["benchmarks"]), "two benchmarks have one name"
    return content, entries


def near(got, expected):
    return math.isclose(got, expected, rel_tol=1e-4)


def check_times(entry, nbytes):
    """The fields of a timed benchmark, and that they agree with one another."""
    assert entry["bytes"] == nbytes, entry
    for side in ("leat", *PEERS):
        assert 0 < entry[f"{side}_min_us"] <= entry[f"{side}_us"] <= entry[f"{side}_max_us"], entry
    assert 0 < entry["flag_min_ns"] <= entry["flag_ns"] <= entry["flag_max_ns"], entry
    best = min(entry[f"{peer}_us"] for peer in PEERS)
    assert near(entry["speedup"], best / entry["leat_us"]), entry
    assert near(entry["leat_gb_per_s"], nbytes / entry["leat_us"] / 1e3), entry


def test_half_round_trips(directory):
    need_peers()
    sizes = (8, 1024, 65536, 1048576)
    _, entries = report(directory, "p2p", *BOTH, *BRIEF, "--sizes", ",".join(map(str, sizes)))
    assert list(entries) == [f"p2p/{n}" for n in sizes], list(entries)
    for n in sizes:
        check_times(entries[f"p2p/{n}"], n)


def test_the_message_rate(directory):
    need_peers()
    _, entries = report(directory, "p2p", "--rate", *BOTH, *BRIEF, "--sizes", "8,4K")
    assert list(entries) == ["rate/8", "rate/4096"], list(entries)
    check_times(entries["rate/8"], 8)
    check_times(entries["rate/4096"], 4096)


def test_collectives(directory):
    need_peers()
    ranks = 3
    _, entries = report(directory, "coll", "-n", ranks, *BOTH, *BRIEF, "--sizes", "8,64K")
    names = ["barrier"] + [f"{op}/{n}" for op in ("broadcast", "allreduce") for n in (8, 65536)]
    assert list(entries) == names, list(entries)
    for name, entry in entries.items():
        check_times(entry, int(name.partition("/")[2] or 0))
        factor = 2 * (ranks - 1) / ranks if name.startswith("allreduce") else 1
        assert near(entry["leat_bus_gb_per_s"], factor * entry["leat_gb_per_s"]), entry


def test_what_ranks_hold(directory):
    need_peers()
    _, entries = report(directory, "memory", "-n", 4, *BOTH, "--peers", "0,1,3",
                        LEAT_MSG_BUDGET="16M")
    assert list(entries) == ["memory/0", "memory/1", "memory/3"], list(entries)
    for peers, entry in zip((0, 1, 3), entries.values()):
        assert entry["peers"] == peers, entry
        for side in ("leat", *PEERS):
            assert 0 < entry[f"{side}_private_dirty_bytes"] <= entry[f"{side}_rss_bytes"], entry
            assert entry[f"{side}_rss_bytes"] <= entry[f"{side}_rss_max_bytes"], entry
        assert 0 < entry["used_bytes"] <= entry["peak_bytes"] <= entry["budget_bytes"], entry
        assert entry["budget_bytes"] == 16 * MIB, entry


def check_flood(directory, ranks, count, nbytes):
    content, entries = report(directory, "flood", "-n", ranks, "--count", count, "--bytes", nbytes,
                              *BOTH, LEAT_MSG_BUDGET="2M")
    assert list(entries) == [f"flood/{side}" for side in ("leat", *PEERS)], list(entries)
    for entry in entries.values():
        assert entry["delivered"] == count and entry["in_order"] is True, entry
        assert 0 <= entry["sent_before_receiving"] <= count, entry
        assert entry["rss_peak_bytes"] >= 0, entry
    for field, value in entries["flood/leat"].items():
        assert field == "name" or content[field] == value, f"{field}: {content[field]}, not {value}"
    assert content["budget_bytes"] == 2 * MIB, content
    assert 0 < content["peak_bytes"] <= content["budget_bytes"], content
    # More bytes than the budget have come before the first was asked for, or the senders waited.
    assert count * nbytes > content["budget_bytes"] > content["sent_before_receiving"] * nbytes


def test_a_flood_of_small_messages(directory):
    need_peers()
    check_flood(directory, 2, 60000, 64)


def test_a_flood_of_larger_messages_from_three(directory):
    need_peers()
    check_flood(directory, 4, 3000, 1024)


def test_without_peers_there_is_no_ratio(directory):
    _, entries = report(directory, "p2p", "--against", "none", *BRIEF, "--sizes", "8")
    entry = entries["p2p/8"]
    assert entry["leat_us"] > 0, entry
    for field in ("openmpi_us", "mpich_us", "speedup"):
        assert entry[field] is None, entry


def test_a_peer_that_is_not_there_is_named_with_its_packages(directory):
    done = command(directory, "p2p", *BRIEF, "--sizes", "8", "--json", PATH=directory)
    entry = json.loads(done.stdout)["benchmarks"][0]
    assert entry["openmpi_us"] is None and entry["mpich_us"] is None, entry
    for word in ("mpirun.openmpi", "openmpi-bin", "mpirun.mpich", "libmpich-dev"):
        assert word in done.stderr, f"{word} is not in: {done.stderr}"


def tune(directory, *arguments, **env):
    content, entries = report(directory, "p2p", "--tune", "--slice", 1, "--sizes", "512,32K,256K",
                              *arguments, **env)
    assert list(entries) == ["tune/512", "tune/32768", "tune/262144"], list(entries)
    return content, entries, {setting["name"]: setting for setting in content["settings"]}


def test_tuning_measures_each_way_where_it_can_be_taken(directory):
    _, entries, settings = tune(directory, "--rounds", 5)
    ways = {512: ("ring", "alone"), 32768: ("ring", "alone", "shared"), 262144: ("alone", "shared")}
    for nbytes, names in ways.items():
        entry = entries[f"tune/{nbytes}"]
        for name in ("ring", "alone", "shared"):
            assert (entry[f"{name}_us"] is not None) == (name in names), entry
        assert entry["fastest"] == min(names, key=lambda name: entry[f"{name}_us"]), entry
        assert entry["flag_ns"] > 0, entry
    assert list(settings) == ["LEAT_MSG_EAGER", "LEAT_MSG_SHARE"], list(settings)
    for setting in settings.values():
        assert setting["present"] == 32768, setting
        assert setting["lowest"] <= setting["value"] <= setting["highest"], setting
        assert setting["told"] == (setting["why_not"] is None), setting
    assert not (pathlib.Path(directory) / ".config").exists(), "written without --write"


def test_tuning_by_few_slices_tells_nothing(directory):
    file = pathlib.Path(directory) / "settings"
    file.write_text("LEAT_MSG_EAGER = 8K\n", encoding="utf-8")
    _, _, settings = tune(directory, "--rounds", 2, "--write", LEAT_CONFIG=str(file))
    assert settings["LEAT_MSG_EAGER"]["present"] == 8192, settings
    for setting in settings.values():
        assert not setting["told"] and not setting["written"], setting
        assert "too few" in setting["why_not"], setting
    assert file.read_text(encoding="utf-8") == "LEAT_MSG_EAGER = 8K\n"


def test_tuning_writes_what_it_can_tell(directory):
    file = pathlib.Path(directory) / "settings"
    before = "# mine\nLEAT_SPIN = 20\n"
    file.write_text(before, encoding="utf-8")
    content, _, settings = tune(directory, "--rounds", 7, "--write", LEAT_CONFIG=str(file))
    assert content["settings_file"] == str(file), content["settings_file"]
    for setting in settings.values():
        assert setting["written"] == setting["told"], setting
    lines = [setting["line"] + "\n" for setting in settings.values() if setting["written"]]
    assert file.read_text(encoding="utf-8") == before + "".join(lines)


def test_options_that_do_not_fit_are_refused(directory):
    for arguments, word in (((*BOTH[:1], "openmpi,lam"), "mpich"), (("--write",), "--tune"),
                            (("--tune", "--rate"), "--rate"), (("--tune", "--sizes", "8"), "512"),
                            (("--tune", "--sizes", "4K,1K"), "rise"), (("-n", 1), "two ranks")):
        done = command(directory, "p2p", *arguments, status=2)
        assert word in done.stderr and not done.stdout, f"{arguments}: {done.stderr}"


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
