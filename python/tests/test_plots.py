"""Slices, and charts of them and of other results."""

import os
import pathlib
import pickle
import sys
import tempfile
import unittest
from unittest import mock

import vruntime
from tests import DEMO, HOGS
from tests.executors import Elsewhere, needs

OPTIONS = {"machine": 1, "duration": "200ms"}


class Slices(unittest.TestCase):
    def test_they_are_what_the_tasks_ran(self):
        run = vruntime.run(DEMO, kernel="6.12", duration="300ms", repeat=2)
        rows = run.rows("slices")
        for seed in run.seeds:
            own = [row for row in rows if row["seed"] == seed.seed]
            ran, ends = dict.fromkeys(seed.tasks, 0.0), {}
            for row in own:
                ran[row["task"]] += row["end_ns"] - row["start_ns"]
                self.assertEqual(row["duration_ns"], row["end_ns"] - row["start_ns"])
                # A CPU runs one task at a time.
                self.assertGreaterEqual(row["start_ns"], ends.get(row["cpu"], 0))
                ends[row["cpu"]] = row["end_ns"]
                self.assertEqual(row["class"], row["task"].rstrip("0123456789").rstrip("-"))
            for name, task in seed.tasks.items():
                # Ends are rounded to microseconds; interrupts of the kernel are in the slices.
                self.assertAlmostEqual(ran[name], task.cpu_ns, delta=2_000_000, msg=name)
            self.assertTrue(all(row["end_ns"] <= 300_000_000 for row in own))
            last = [row for row in own if row["end_state"] is None]
            self.assertTrue(last and all(row["end_ns"] == 300_000_000 for row in last))
        both = [[row["start_ns"] for row in rows if row["seed"] == seed] for seed in (1, 2)]
        self.assertNotEqual(*both)
        self.assertEqual(next(iter(run.slices(run.seeds[1])))["start_ns"], both[1][0])

    def test_they_are_known_after_sending_and_in_another_folder(self):
        run = vruntime.run(HOGS, **OPTIONS)
        sent = pickle.loads(pickle.dumps(run))
        self.assertEqual(sent.rows("slices"), run.rows("slices"))
        with tempfile.TemporaryDirectory() as folder:
            sweep = vruntime.sweep(HOGS, {"seed": [1, 2]}, executor=Elsewhere(), out=folder, **OPTIONS)
            # Of a run that another machine did: nothing of its folder is used, and nothing is written to it.
            before = {path: path.stat().st_mtime_ns for path in pathlib.Path(folder).rglob("*")}
            self.assertEqual(sweep[0].run.rows("slices"), run.rows("slices"))
            self.assertEqual({path: path.stat().st_mtime_ns for path in pathlib.Path(folder).rglob("*")}, before)
        self.assertEqual(len(sweep.rows("slices")), sum(len(point.run.rows("slices")) for point in sweep))

    def test_a_file_that_has_changed_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "hogs.json")
            path.write_text('{"tasks": {"hog": {"instance": 2, "loop": -1, "run": 1000}}}')
            run = vruntime.run(path, **OPTIONS)
            self.assertGreater(len(run.rows("slices")), 10)
            path.write_text('{"tasks": {"hog": {"instance": 3, "loop": -1, "run": 1000}}}')
            with self.assertRaisesRegex(vruntime.VruntimeError, "seed 1 does not give the events"):
                run.rows("slices")
        with self.assertRaisesRegex(vruntime.VruntimeError, "slices need the run itself"):
            vruntime.Run(run.json).rows("slices")

    @needs("pandas")
    def test_a_frame(self):
        frame = vruntime.run(HOGS, **OPTIONS).frame("slices")
        self.assertLessEqual({"task", "cpu", "start_ns", "end_ns", "end_state"}, set(frame.columns))
        self.assertEqual(set(frame.task), {"hog-0", "hog-1"})


@needs("matplotlib")
class Charts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.result = vruntime.run(DEMO, kernel="6.12", duration="200ms")
        cls.both = vruntime.compare(DEMO, kernel=["6.1", "6.12"], duration="100ms", repeat=2)
        axes = {"machine": [1, 2], "kernel": ["6.1", "6.12"], "seed": [1, 2]}
        cls.sweep = vruntime.sweep(HOGS, axes, duration="50ms")

    def charts(self):
        plot = self.result.plot
        return {
            "timeline": plot.timeline(),
            "tasks": plot.timeline(by="task", end=0.02),
            "latency": plot.latency(),
            "shares": plot.shares(),
            "groups": plot.shares("groups"),
            "comparison": self.both.plot("late_p99"),
            "heatmap": self.sweep.plot.heatmap(),
        }

    def test_notebooks_show_them_and_equal_ones_are_equal_files(self):
        again = self.charts()
        with tempfile.TemporaryDirectory() as folder:
            for name, chart in self.charts().items():
                with self.subTest(name):
                    shown = chart._repr_png_()
                    self.assertTrue(shown.startswith(b"\x89PNG"))
                    self.assertEqual(shown, again[name]._repr_png_())
                    for kind, start in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")):
                        written = []
                        for one in (chart, again[name]):
                            path = pathlib.Path(folder, f"{name}.{kind}")
                            one.save(path)
                            written.append(path.read_bytes())
                        self.assertTrue(written[0].startswith(start))
                        self.assertEqual(*written)

    def test_a_timeline_has_every_slice(self):
        axes = self.result.plot.timeline(start=0.05, end=0.15).figure.axes[0]
        spans = [path for collection in axes.collections for path in collection.get_paths()]
        inside = [row for row in self.result.slices() if row["end_ns"] > 50_000_000 and row["start_ns"] < 150_000_000]
        self.assertEqual(len(spans), len(inside))
        drawn = sum(path.get_extents().width for path in spans)
        cut = sum(min(row["end_ns"], 150_000_000) - max(row["start_ns"], 50_000_000) for row in inside)
        self.assertAlmostEqual(drawn, cut / 1e6, places=3)
        self.assertEqual([text.get_text() for text in axes.get_yticklabels()], [f"CPU {cpu}" for cpu in range(8)])
        one = self.result.plot.timeline(classes=["web/worker"], by="task").figure.axes[0]
        self.assertTrue(all(text.get_text().startswith("web/worker-") for text in one.get_yticklabels()))

    def test_bars_are_the_numbers(self):
        axes = self.result.plot.shares().figure.axes[0]
        widths = [bar.get_width() for bar in axes.patches]
        classes = list(self.result.classes.values())
        for index, one in enumerate(classes):
            self.assertAlmostEqual(widths[index], 100 * one.share, places=6)
            self.assertAlmostEqual(widths[len(classes) + index], 100 * one.run_delay_ns / 200_000_000, places=6)
        axes = self.both.plot("share").figure.axes[0]
        names = [text.get_text() for text in axes.get_yticklabels()]
        for variant, bars in zip(self.both.variants, axes.containers[::2]):
            for name, bar in zip(names, bars.patches):
                self.assertAlmostEqual(bar.get_width(), self.both.find("share", class_=name).values[variant].mean)

    def test_cells_are_means(self):
        axes = self.sweep.plot.heatmap("share", x="machine", y="kernel").figure.axes[0]
        cells = axes.images[0].get_array()
        self.assertEqual(cells.shape, (2, 2))
        for row, kernel in enumerate(("6.1", "6.12")):
            for column, machine in enumerate((1, 2)):
                of = [p for p in self.sweep if (p.of["machine"], p.of["kernel"]) == (machine, kernel)]
                mean = sum(p.run.classes["hog"].share for p in of) / 2
                self.assertAlmostEqual(cells[row][column], mean)

    def test_latencies_are_the_percentiles(self):
        axes = self.result.plot.latency(classes=["web/worker"]).figure.axes[0]
        late = self.result.classes["web/worker"].wakeup_to_run_ns
        drawn = [collection.get_offsets()[0][0] for collection in axes.collections]
        for there, value in zip(drawn, (late.p50, late.p90, late.p99, late.p999, late.max)):
            self.assertAlmostEqual(there, value / 1e3)

    def test_what_is_not_there_is_told(self):
        plot = self.result.plot
        for call, expected in [
            (lambda: plot.timeline(by="core"), "'cpu' or 'task'"),
            (lambda: plot.timeline(start=0.5), "ends at 0.2 s, and starts at 0.5 s"),
            (lambda: plot.timeline(start=5, end=6), "starts at 5 s, and the run is from 0 to 0.2 s"),
            (lambda: plot.timeline(start=-1), "starts at -1 s, and the run is from 0 to 0.2 s"),
            (lambda: plot.timeline(classes=["web"]), "no class 'web'; there are build/cc1"),
            (lambda: plot.latency("late"), "`of` is one of wakeup_to_run_ns"),
            (lambda: plot.latency("response_ns", classes=["x"]), "no class with this latency 'x'"),
            (lambda: plot.shares("tasks"), "'classes' or 'groups'"),
            (lambda: self.both.plot("late"), "no values of 'late'; there are share"),
            (lambda: self.sweep.plot.heatmap("latency"), "no column 'latency'; there are .*share"),
            (lambda: self.sweep.plot.heatmap(class_="cat"), "`class_` is one of 'hog', not 'cat'"),
            (lambda: self.sweep.plot.heatmap(x="hz"), "two axes of the sweep, of 'machine', 'kernel', 'seed'"),
            (lambda: self.sweep.plot.heatmap(x="kernel", y="kernel"), "not 'kernel' and 'kernel'"),
        ]:
            with self.subTest(expected), self.assertRaisesRegex(ValueError, expected):
                call()


class WithoutMatplotlib(unittest.TestCase):
    def test_it_is_told(self):
        run = vruntime.run(HOGS, **OPTIONS)
        hidden = mock.patch.dict(sys.modules, {"matplotlib": None})
        with hidden, self.assertRaisesRegex(ImportError, "pip install matplotlib"):
            run.plot.shares()


class Tour(unittest.TestCase):
    @needs("nbclient", "ipykernel", "matplotlib", "pandas", "pyarrow")
    def test_the_notebook_runs(self):
        import nbclient
        import nbformat

        path = pathlib.Path(__file__).parents[1] / "examples" / "tour.ipynb"
        notebook = nbformat.read(path, as_version=4)
        self.assertEqual([cell.outputs for cell in notebook.cells if cell.cell_type == "code" and cell.outputs], [])
        search = os.pathsep.join(filter(None, [str(path.parents[1]), os.environ.get("PYTHONPATH")]))
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"PYTHONPATH": search}):
            client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}})
            client.execute()
        shown = [
            output.data
            for cell in notebook.cells
            if cell.cell_type == "code"
            for output in cell.outputs
            if "data" in output
        ]
        self.assertGreaterEqual(sum("image/png" in data for data in shown), 5)
        self.assertGreaterEqual(sum("text/html" in data for data in shown), 3)
