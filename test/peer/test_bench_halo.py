# SPDX-License-Identifier: Apache-2.0
"""`leat bench halo` with ranks as threads, on the CPU device: what the reports say.

Every slice is verified with stamps before it is timed and a wrong value ends its mode, so status 0
says that data were right. Advantage: the driver and leat's side are those of GPUs. Disadvantage:
the peers are not here, and slices this short say nothing of speed.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import leat_md  # noqa: E402

MODES = ("fused", "host", "stream", "pulse", "resident")
BRIEF = ("--device", "cpu", "--rounds", 1, "--slice", 1)


def need_side():
    program = pathlib.Path(leat_md.leat_bin()).parent / "leat-side"
    if not program.exists():
        raise leat_md.Skip(f"{program} was not built (LEAT_BUILD_BENCH=OFF)")


def words_of(arguments):
    return [leat_md.leat_bin(), "bench", "halo", *map(str, arguments)]


def surroundings(directory):
    outside = {k: v for k, v in os.environ.items() if not k.startswith("LEAT_")}
    return {"cwd": directory, "env": {**outside, "HOME": directory}}


def command(directory, *arguments, status=0):
    words = words_of(arguments)
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False,
                          **surroundings(directory))
    assert done.returncode == status, f"status {done.returncode} of {words}\n{done.stderr}"
    return done


def report(directory, *arguments):
    content = json.loads(command(directory, *arguments, "--json").stdout)
    assert content["schema"] == "leat.bench/1" and not content["incomplete"], content
    entries = {entry["name"]: entry for entry in content["benchmarks"]}
    assert len(entries) == len(content["benchmarks"]), "two benchmarks have one name"
    for entry in entries.values():
        assert 0 < entry["min"] <= entry["real_time"] <= entry["max"], entry
        assert entry["time_unit"] == "us" and entry["iterations"] >= 3, entry
    return content, entries


def test_every_mode_element_and_direction(directory):
    need_side()
    content, entries = report(directory, *BRIEF, "--atoms", "100,1001", "--elements",
                              "float3,float4", "--direction", "forward,reverse")
    assert (content["device"], content["plan"], content["ranks"]) == ("cpu", "pulse", 2), content
    wanted = {f"pulse/{element}/{way}/exchange/{mode}/{atoms}" for element in ("float3", "float4")
              for way in ("forward", "reverse") for mode in MODES for atoms in (100, 1001)}
    assert set(entries) == wanted, set(entries) ^ wanted
    for entry in entries.values():
        assert entry["ghosts"] == entry["atoms"] and entry["pulses"] == 1, entry
        assert entry["ratio_to_best_peer"] is None and entry["best_peer"] is None, entry


def test_steps_with_a_consumer_are_a_group_of_their_own(directory):
    need_side()
    _, entries = report(directory, *BRIEF, "--atoms", 500, "--consumer", "--mode", "fused,resident")
    assert list(entries) == [f"pulse/float3/forward/{group}/{mode}/500"
                             for group in ("exchange", "step") for mode in ("fused", "resident")]


def test_whole_plans_of_both_kinds(directory):
    need_side()
    kinds = {"forwarded": {"1d": 1, "2d": 2, "3d": 3}, "onehop": {"1d": 1, "2d": 3, "3d": 7}}
    for plan, ranks in (("1d", 2), ("2d", 4), ("3d", 8)):
        content, entries = report(directory, *BRIEF, "--plan", plan, "--kind", "forwarded,onehop",
                                  "--mode", "fused,host", "--atoms", 600, "--direction",
                                  "forward,reverse")
        assert content["ranks"] == ranks and content["plan"] == plan, content
        assert len(entries) == 8, list(entries)
        for entry in entries.values():
            assert entry["pulses"] == kinds[entry["kind"]][plan], entry
        for way in ("forward", "reverse"):
            pair = [entries[f"{plan}/float3/{way}/exchange/fused/{kind}/600"] for kind in kinds]
            assert pair[0]["ghosts"] == pair[1]["ghosts"] > 0, pair


def test_launches_and_waits_of_a_plan_are_counted(directory):
    need_side()
    _, entries = report(directory, *BRIEF, "--plan", "3d", "--atoms", 400, "--mode", "all")
    launches = {entry["mode"]: entry["launches"] for entry in entries.values()}
    waits = {entry["mode"]: entry["blocking_waits"] for entry in entries.values()}
    assert launches["fused"] == 1 and launches["host"] == launches["pulse"] == 3, launches
    assert launches["resident"] < 1, launches
    assert waits["fused"] == waits["pulse"] == 0 and waits["host"] >= 6, waits
    for entry in entries.values():
        host = entries["3d/float3/forward/exchange/host/forwarded/400"]["real_time"]
        assert abs(entry["ratio_to_host"] * entry["real_time"] / host - 1) < 1e-3, entry


def interrupted_after(directory, seconds):
    """(status, output, errors) of a long benchmark that is told to end."""
    sizes = ",".join(str(100 + i) for i in range(30))
    with subprocess.Popen(words_of((*BRIEF, "--atoms", sizes, "--rounds", 100, "--json")),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          **surroundings(directory)) as running:
        try:
            return 0, *running.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGTERM)
            output, errors = running.communicate(timeout=60)
            return running.returncode, output, errors


def test_a_signal_ends_it_with_what_there_is(directory):
    need_side()
    for seconds in (0.5, 1, 2, 4, 8):  # how fast this machine is nobody knows
        status, output, errors = interrupted_after(directory, seconds)
        if output:
            break
    content = json.loads(output)
    assert status != 0 and f"signal {int(signal.SIGTERM)}" in errors, errors
    assert content["incomplete"] is True and content["benchmarks"], content


def test_reports_are_merged_and_compared_with_the_targets(directory):
    need_side()
    files = []
    for number, plan in enumerate(("pulse", "3d")):
        files.append(pathlib.Path(directory) / f"{number}.json")
        files[-1].write_text(command(directory, *BRIEF, "--plan", plan, "--atoms", "1000,4000",
                                     "--mode", "fused,host,resident", "--json").stdout,
                             encoding="utf-8")
    program = pathlib.Path(__file__).resolve().parents[2] / "bench" / "device_report.py"
    merged, text = (pathlib.Path(directory) / name for name in ("merged.json", "report.md"))
    subprocess.run([sys.executable, program, merged, text, *files], check=True, timeout=60,
                   stdout=subprocess.DEVNULL)
    content = json.loads(merged.read_text(encoding="utf-8"))
    assert len(content["benchmarks"]) == 12 and len(content["contexts"]) == 2, content
    lines = text.read_text(encoding="utf-8").splitlines()
    for entry in content["benchmarks"]:
        if entry["mode"] == "fused" and entry["plan"] == "3d":
            word = "met" if entry["ratio_to_host"] >= 3 else "MISSED"
            wanted = f"- {word}: 3d, forwarded, {entry['atoms']:,} atoms: fused"
            assert any(line.startswith(wanted) for line in lines), (wanted, lines)
    assert "- not measured: fused beside NCCL and NVSHMEM on stream" in lines, lines
    assert any(line.startswith("| leat resident, forwarded | ") for line in lines), lines


def test_what_does_not_go_together_is_refused(directory):
    for arguments, word in ((("--kind", "onehop"), "--device"), (("--mode", "fused,host"), "cuda"),
                            (("--device", "cpu", "--kind", "onehop"), "--plan"),
                            (("--device", "cpu", "--graph"), "cuda"),
                            (("--device", "cpu", "--mode", "none"), "--mode"),
                            (("--device", "cpu", "--against", "nccl"), "cuda"),
                            (("--device", "cpu", "--against", "openmpi"), "openmpi"),
                            (("--device", "tpu"), "cuda")):
        done = command(directory, *arguments, status=2)
        assert word in done.stderr and not done.stdout, f"{arguments}: {done.stderr}"


def test_more_programs_than_there_is_room_for(directory):
    need_side()
    done = command(directory, *BRIEF, "--plan", "2d", "--mode", "all", "--kind",
                   "forwarded,onehop", status=1)
    assert "fewer modes" in done.stderr, done.stderr


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
