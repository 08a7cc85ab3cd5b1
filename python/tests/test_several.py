"""Comparisons, sweeps, replays, lists."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings
from unittest import mock

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
        with self.assertRaisesRegex(KeyError, "web/worker has no 'shares'; it has share"):
            both.find("shares", class_="web/worker")
        with self.assertRaisesRegex(KeyError, "there is nothing of web/work; there are class_='video/"):
            both.find("share", class_="web/work")
        with self.assertRaisesRegex(KeyError, "there is no variant '6.13'; there are 6.1, 6.12"):
            share.change("6.13")
        self.assertIs(both.find("share", group="web"), both.find("share", group="/web"))
        self.assertNotIn("1 seed", str(both))
        self.assertIn("<th>6.12</th>", both._repr_html_())
        self.assertIn(" ± ", both._repr_html_())
        self.assertNotRegex(both._repr_html_(), r"\de[+-]\d")
        self.assertEqual(str(both), both.stands_out)

    def test_machines_rules_and_workloads(self):
        self.assertEqual(vruntime.compare(HOGS, machine=[1, 2], duration="100ms").seeds, 5, "by default")
        machines = vruntime.compare(HOGS, machine=[1, 2], duration="100ms", repeat=1)
        self.assertEqual(machines.variants, ("1 CPU", "2 CPUs"))
        self.assertIsNone(machines.find("share", class_="hog").overlaps("2 CPUs"), "of one seed")
        self.assertIn("One seed", str(machines))
        with self.assertRaisesRegex(TypeError, "a kernel is a text"):
            vruntime.compare(HOGS, kernel=[6.1, "6.12"])
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
        axes = {"settings": [None, {"base_slice_ns": 3e6}], "features": [["NO_RUN_TO_PARITY", "NO_PLACE_LAG"]]}
        rows = vruntime.sweep(HOGS, axes, machine=1, duration="100ms").rows()
        self.assertEqual([row["base_slice_ns"] for row in rows], [None, 3e6])
        self.assertEqual(rows[0]["features"], "NO_RUN_TO_PARITY NO_PLACE_LAG")

    def test_what_nobody_takes_is_refused(self):
        with self.assertRaisesRegex(TypeError, "kernels"):
            vruntime.sweep(HOGS, {"kernels": ["6.1"]})
        with self.assertRaisesRegex(TypeError, "'machine' is in `over`"):
            vruntime.sweep(HOGS, {"machine": [1]}, machine=2)
        with self.assertRaisesRegex(TypeError, "names its parameters"):
            vruntime.sweep(lambda **others: HOGS, {"count": [1]})
        with self.assertRaisesRegex(TypeError, "'kernel' is a parameter"):
            vruntime.sweep(lambda kernel: HOGS, {"kernel": ["a", "b"]})
        with self.assertRaisesRegex(TypeError, "'machine' is a list of values"):
            vruntime.sweep(HOGS, {"machine": "12"})
        with self.assertRaisesRegex(ValueError, "'hz' is empty"):
            vruntime.sweep(HOGS, {"hz": []})
        with self.assertRaisesRegex(TypeError, "`html` is one file"):
            vruntime.sweep(HOGS, {"hz": [100]}, html="page.html")
        with self.assertRaisesRegex(ValueError, "`parallel`"):
            vruntime.sweep(HOGS, {"hz": [100]}, parallel=0)

    def test_no_column_hides_another(self):
        def niced(nice):
            return {"tasks": {"hog": {"loop": -1, "run": 1000, "priority": nice}}}

        with self.assertRaisesRegex(ValueError, "'nice' is called as a column"):
            vruntime.sweep(niced, {"nice": [0, 5]}, machine=1, duration="100ms")

        def sliced(base_slice_ns):
            return HOGS

        axes = {"base_slice_ns": [1], "settings": [{"base_slice_ns": 3_000_000}]}
        with self.assertRaisesRegex(ValueError, "'base_slice_ns' is called as one of `settings`"):
            vruntime.sweep(sliced, axes, machine=1, duration="100ms")
        with self.assertRaisesRegex(ValueError, "`repeat`"):
            vruntime.sweep(HOGS, {"seed": [1, 2]}, repeat=2)

    def test_in_one_order_and_of_what_can_be_gone_through_once(self):
        features = (name for name in ["NO_PLACE_LAG"])
        axes = {"kernel": {"6.6", "6.12"}, "hz": (hz for hz in [100, 250])}
        sweep = vruntime.sweep(HOGS, axes, machine=1, duration=0.1, features=features)
        self.assertEqual([point.of["kernel"] for point in sweep], ["6.12", "6.12", "6.6", "6.6"])
        for point in sweep:
            self.assertIn("NO_PLACE_LAG", str(point.run.json["changes"]))

    def test_its_warnings_are_the_callers(self):
        odd = {"tasks": {"a": {"loop": 1, "run": 1, "rum": 2}}}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            vruntime.sweep(odd, {"hz": [100, 250]})
        self.assertEqual([one.filename for one in caught], [__file__] * 2)
        with warnings.catch_warnings(), self.assertRaises(vruntime.VruntimeWarning):
            warnings.simplefilter("error")
            vruntime.sweep(odd, {"hz": [100, 250]})

    def test_each_run_has_a_folder_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            vruntime.sweep(HOGS, {"seed": [1, 2], "kernel": ["6.12+NO_PLACE_LAG"]}, machine=1, duration=0.1, out=folder)
            left = sorted(path.name for path in pathlib.Path(folder).iterdir())
            self.assertEqual(left, ["seed=1_kernel=6.12+NO_PLACE_LAG", "seed=2_kernel=6.12+NO_PLACE_LAG"])
            for name in left:
                self.assertTrue(pathlib.Path(folder, name, "trace.perfetto-trace").exists())

    def test_shown(self):
        sweep = vruntime.sweep(HOGS, {"hz": [100]}, machine=1, duration="100ms")
        self.assertIn("<td>hog</td>", sweep._repr_html_())
        self.assertEqual(repr(sweep), "<vruntime.Sweep over hz: 1 runs>")

    def test_an_error_is_the_callers(self):
        with self.assertRaisesRegex(vruntime.VruntimeError, "in the sweep: kernel = '6.13', hz = 100") as caught:
            vruntime.sweep(HOGS, {"kernel": ["6.12", "6.13"], "hz": [100]}, machine=1, duration="100ms")
        self.assertIn("6.13", caught.exception.message)

        def broken(count):
            raise LookupError(count)

        with self.assertRaisesRegex(LookupError, "7"):
            vruntime.sweep(broken, {"count": [7]})

    def test_a_run_that_cannot_be_described_is_a_row(self):
        def task(n):
            return {"tasks": {"a": {"run": n, "sleep": 100, "loop": 3}}}

        for bad in [float("nan"), object()]:
            sweep = vruntime.sweep(task, {"n": [100, bad, 200]}, machine=1, errors="keep")
            self.assertEqual([point.error is not None for point in sweep], [False, True, False])
            self.assertEqual([row["n"] for row in sweep.rows() if "error" not in row], [100, 200])
            self.assertIsNotNone(sweep.rows()[1]["error"])
        # An unknown option is an error of the call.
        with self.assertRaisesRegex(TypeError, "no option 'nonsense'"):
            vruntime.sweep(task, {"n": [100, 200]}, errors="keep", nonsense=1)

    def test_many_runs_of_a_fresh_interpreter(self):
        """Several threads look for the command at the same time."""
        program = (
            "import sys, vruntime\nsys.setswitchinterval(1e-6)\n"
            "hogs = {'tasks': {'hog': {'loop': 1, 'run': 10}}}\n"
            "print(len(vruntime.sweep(hogs, {'hz': range(100, 116)}, machine=1, parallel=16)))\n"
        )
        folder = os.path.dirname(os.path.dirname(vruntime.__file__))
        with tempfile.TemporaryDirectory() as path:
            os.symlink(vruntime._command._find(), os.path.join(path, "vruntime"))
            env = {**os.environ, "PYTHONPATH": folder, "PATH": path}
            env.pop("VRUNTIME", None)
            for _ in range(5):
                done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
                self.assertEqual((done.stdout, done.stderr), ("16\n", ""))


class Replays(unittest.TestCase):
    def test_each_option_is_the_commands(self):
        path = pathlib.Path
        for options, said in {
            ("recorded_kernel", "6.1"): "--recorded-kernel=6.1",
            ("recorded_machine", 2): "--recorded-machine=2",
            ("cgroups", path("g.txt")): "--cgroups=g.txt",
            ("beside", (path("a.json"), "b.json")): "--beside=a.json --beside=b.json",
            ("wakeups", "recorded"): "--wakeups=recorded",
            ("event_cost", "300ns"): "--event-cost=300ns",
            ("rules", ("a: nice=1", path("r.toml"))): "--map=a: nice=1 --map=r.toml",
            ("autogroup", False): "--no-autogroup",
            ("repeat", 3): "--repeat=3",
            ("html", path("p.html")): "--html=p.html",
        }.items():
            name, value = options
            with mock.patch("vruntime._replay.command", side_effect=InterruptedError) as command:
                with self.subTest(name), self.assertRaises(InterruptedError):
                    vruntime.replay("t.dat", **{name: value})
                asked = [word for word in command.call_args[0] if word != "--repeat=1"]
                self.assertEqual(" ".join(asked), f"replay t.dat --json {said}")
        for wrong in ({"recorded_kernel": 6.1}, {"recorded_machine": True}, {"cgroups": ["a"]}, {"preempt": ["full"]}):
            with self.subTest(wrong), self.assertRaises(TypeError):
                vruntime.replay("t.dat", **wrong)

    def test_a_trace_of_ours(self):
        with tempfile.TemporaryDirectory() as folder:
            vruntime.run(HOGS, machine=1, duration="1s", out=folder)
            trace = pathlib.Path(folder, "trace.perfetto-trace")
            replay = vruntime.replay(trace, kernel="6.1")
            several = vruntime.replay(trace, kernel="6.1", repeat=2)
            alone = vruntime.replay(trace, kernel="6.1", repeat=1)
        self.assertEqual(len(replay.tasks), 2)
        for task in replay.tasks:
            for which in (task.recorded, task.replayed, task.what_if):
                self.assertAlmostEqual(which["cpu_ns"] / 1e9, 0.5, delta=0.01)
        self.assertIn("recorded_cpu_ns", replay.rows()[0])
        self.assertIn("what_if_switches", replay.rows()[0])
        self.assertIn(replay.check["summary"], str(replay))
        self.assertTrue(any("sleep periodically" in note for note in replay.notes), replay.notes)
        self.assertIn("<th>what if</th>", replay._repr_html_())
        self.assertEqual(several.json["verdict"]["of_seeds"], [replay.json["verdict"]["verdict"]] * 2)
        self.assertTrue(all(cell["what_if"] for cell in several.json["over_seeds"] if cell["metric"] == "share"))
        self.assertEqual(len(replay.json["verdict"]["of_seeds"]), 5, "the default of a what-if")
        self.assertNotIn("over_seeds", alone.json)
        with self.assertRaisesRegex(TypeError, "`beside` is"):
            vruntime.replay(trace, beside=HOGS)


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
