"""``python3 -m unittest discover -s python/tests -t python``, with ``VRUNTIME`` naming the command to test."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "scenarios" / "demo" / "demo.toml"
#: Two alike that want all of a CPU.
HOGS = {"tasks": {"hog": {"instance": 2, "loop": -1, "run": 1000}}}
