"""Writes the table of docs/cpurc.md: %CPU of a compilation beside two loops, for each share that it is guaranteed.

    python3 docs/cpurc.py target/release/vruntime
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
HISTORY = HERE.parent / "scenarios" / "history"
# The controller as its document has it: without the two features of our own.
DOCUMENTED = (
    "--feature NO_CPU_RC_TICK --feature NO_CPU_RC_WAITING --set CPU_RC_SPREAD_PERIOD=10000 --set CPU_RC_RECALC_INTERVAL=1000 "
    "--set CPU_RC_TSFACTOR_MAX=100"
).split()


def percent(scenario: str, share: int, *more: str) -> str:
    """What kernbench says of itself with that share, the loops with the rest."""
    # What a group is guaranteed, or weighs; a weight is 1 at least.
    part = {"/kernbench": share, "/loops": 100 - share}

    def given(found: re.Match) -> str:
        least = 1 if found[3] == "weight" else 0
        return f"{found[1]}{max(part[found[2]], least)}"

    text, changed = re.subn(r'(\[groups\."(/\w+)"\]\n(guarantee|weight) = )\d+', given, (HISTORY / scenario).read_text())
    assert changed == len(part), f"{scenario}: {changed} groups"
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        command = [sys.argv[1], "run", file.name, "--json", *more]
        run = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return f"{run['observed'][0]['benchmarks'][0]['numbers']['percent_cpu']:.1f}"


def row(found: re.Match) -> str:
    share = int(found[1])
    ours = percent("cpurc.toml", share, *DOCUMENTED), percent("cpurc.toml", share), percent("cpurc-today.toml", share)
    return f"| {share} | {found[2]} | {' | '.join(ours)} |"


page = HERE / "cpurc.md"
text, rows = re.subn(r"^\| (\d+) \| ([\d.]+) \|.*\|$", row, page.read_text(), flags=re.MULTILINE)
assert rows == 10, f"{rows} rows"
page.write_text(text)
