"""Comparisons, sweeps, replays, lists."""

import json
import pathlib
import tempfile
import unittest

import vruntime
from tests import DEMO, HOGS


class Comparisons(unittest.TestCase):
    def test_cells_are_those_of_the_command(self):
        both = vruntime.compare(DEMO, kernel=["6.1", "6.12"], duration="300ms", repeat=2)
        arguments = ["--kernel=6.1", "--kernel=6.12", "--duration=300ms", "--repeat=2", "--json"]
        self.assertEqual(both.json, vruntime.command("compare", str(DEMO), *arguments).json())
        self.assertEqual(both.variants, ("6.1", "6.12"))
        self.assertTrue(both.stands_out.startswith("What stands out: "))
        self.assertEqual(len(both.rows()), sum(len(cell.values) for cell in both.cells))
        share = both.find("share", class_="web/worker")
        one, other = share.values["6.1"], share.values["6.12"]
        self.assertAlmostEqual(share.change("6.12"), other.mean / one.mean - 1)
        self.assertEqual(share.change("6.1"), 0)
        self.assertTrue(share.overlaps("6.1"))
        self.assertEqual(share.overlaps("6.12"), one.min <= other.max and other.min <= one.max)
        with self.assertRaisesRegex(KeyError, "there are share"):
            both.find("shares", class_="web/worker")
        self.assertIn("<th>6.12</th>", both._repr_html_())
        self.assertEqual(str(both), both.stands_out)

    def test_machines_rules_and_workloads(self):
        machines = vruntime.compare(HOGS, machine=[1, 2], duration="100ms")
        self.assertEqual(machines.variants, ("1", "2"))
        rules = vruntime.compare(HOGS, machine=1, rules="hog-0: nice=5", duration="1s")
        self.assertEqual(len(rules.variants), 2)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "one.json")
            path.write_text(json.dumps({"tasks": {"hog": {"loop": -1, "run": 1000}}}))
            files = vruntime.compare(path, HOGS, machine=1, duration="100ms")
        self.assertEqual(len(files.variants), 2)
        with self.assertRaisesRegex(vruntime.VruntimeError, "only one workload"):
            vruntime.compare(HOGS, HOGS)


class Sweeps(unittest.TestCase):
    def test_every_combination_the_last_axis_fastest(self):
        sweep = vruntime.sweep(HOGS, {"machine": [1, 2], "kernel": ["6.1", "6.12"]}, duration="100ms", repeat=2)
        self.assertEqual(
            [tuple(point.of.values()) for point in sweep], [(1, "6.1"), (1, "6.12"), (2, "6.1"), (2, "6.12")]
        )
        self.assertEqual([point.run.kernel for point in sweep], ["6.1", "6.12"] * 2)
        self.assertEqual(sweep[2].run.digest, vruntime.run(HOGS, machine=2, kernel="6.1", duration="100ms").digest)
        self.assertEqual((len(sweep), len(sweep.rows()), len(sweep.rows("tasks"))), (4, 8, 16))
        self.assertEqual(sweep.rows()[0]["machine"], 1)

    def test_values_of_several_things_are_named_in_a_table(self):
        axes = {"settings": [{"base_slice_ns": 3_000_000}], "features": [["NO_RUN_TO_PARITY", "NO_PLACE_LAG"]]}
        row = vruntime.sweep(HOGS, axes, machine=1, duration="100ms").rows()[0]
        self.assertEqual((row["settings"], row["features"]), ("base_slice_ns=3000000", "NO_RUN_TO_PARITY NO_PLACE_LAG"))

    def test_what_nobody_takes_is_refused(self):
        with self.assertRaisesRegex(TypeError, "kernels"):
            vruntime.sweep(HOGS, {"kernels": ["6.1"]})
        with self.assertRaisesRegex(TypeError, "'machine' is in `over`"):
            vruntime.sweep(HOGS, {"machine": [1]}, machine=2)
        with self.assertRaisesRegex(TypeError, "names its parameters"):
            vruntime.sweep(lambda **others: HOGS, {"count": [1]})

    def test_an_error_is_the_callers(self):
        with self.assertRaisesRegex(vruntime.VruntimeError, "6.12"):
            vruntime.sweep(HOGS, {"kernel": ["6.12", "6.13"]}, machine=1, duration="100ms")


class Replays(unittest.TestCase):
    def test_a_trace_of_ours(self):
        with tempfile.TemporaryDirectory() as folder:
            vruntime.run(HOGS, machine=1, duration="1s", out=folder)
            trace = pathlib.Path(folder, "trace.perfetto-trace")
            replay = vruntime.replay(trace, kernel="6.1")
        self.assertEqual(len(replay.tasks), 2)
        for task in replay.tasks:
            for which in (task.recorded, task.replayed, task.what_if):
                self.assertAlmostEqual(which["cpu_ns"] / 1e9, 0.5, delta=0.01)
        self.assertIn("recorded_cpu_ns", replay.rows()[0])
        self.assertIn("what_if_switches", replay.rows()[0])
        self.assertIn(replay.check["summary"], str(replay))


class Lists(unittest.TestCase):
    def test_kernels_features_machines(self):
        names = [kernel.name for kernel in vruntime.kernels()]
        self.assertIn("6.12", names)
        features = vruntime.features("6.12")
        self.assertTrue(features["PLACE_LAG"].on)
        self.assertGreater(features["base_slice_ns"].value_by_cpus[64], features["base_slice_ns"].value_by_cpus[1])
        for machine in vruntime.machines():
            self.assertGreater(len(vruntime.machine(machine.topology)), 0)
        self.assertEqual({cpu.llc for cpu in vruntime.machine("pack:2 l3:2 core:2")}, {0, 1, 2, 3})
        self.assertRegex(vruntime.version(), r"^\d+\.\d+\.\d+")
