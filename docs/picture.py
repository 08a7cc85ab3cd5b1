"""Draws README's picture: the head of `vruntime compare` on the demo, as an SVG for light and dark pages.

    python3 docs/picture.py target/release/vruntime > docs/demo.svg
"""

import html
import subprocess
import sys

# Browsers collapse other spaces in SVG.
NO_BREAK = "\u00a0"
command = ["compare", "demo", "--repeat", "5"]
output = subprocess.run([sys.argv[1], *command], capture_output=True, text=True, check=True).stdout.splitlines()

wanted = ("tasks ", "──", "video/slice", "video/sound", "build/cc1", "web/accept", "web/worker")
lines, keep = [], False
for line in output:
    if line.startswith(wanted):
        keep = True
    elif line and not line.startswith(" "):
        keep = False
    if keep and line and (not line.startswith(" ") or any(word in line for word in ("wait %", "lateness p99", "switch/s", "migrations"))):
        lines.append(line)
start = next(index for index, line in enumerate(output) if line.startswith("What stands out"))
said = output[start : output.index("", start)]
lines = ["$ vruntime " + " ".join(command), ""] + said + [""] + lines

height, width, left = 18, max(map(len, lines)) * 8.43 + 32, 16
STYLE = """<style>
.bg{fill:#f6f8fa}.text{fill:#24292f}.command{fill:#116b52}.said{fill:#8a5a00}
@media (prefers-color-scheme:dark){.bg{fill:#11161c}.text{fill:#d7dde4}.command{fill:#7fd1b9}.said{fill:#f2c572}}
</style>"""
print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{len(lines) * height + 32}" role="img" '
      'aria-label="vruntime compare prints a table of what changes between two kernels">')
print(STYLE)
print('<rect width="100%" height="100%" rx="8" class="bg"/>')
print('<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">')
for number, line in enumerate(lines):
    css = "command" if number == 0 else "said" if line.startswith("What stands out") else "text"
    print(f'<text x="{left}" y="{(number + 1) * height + 12}" class="{css}">{html.escape(line).replace(" ", NO_BREAK)}</text>')
print("</g></svg>")
