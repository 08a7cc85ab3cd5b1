"""Errors and warnings."""

import contextlib
import glob
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from unittest import mock

import vruntime
from tests import DEMO, HOGS


class Errors(unittest.TestCase):
    def test_they_tell_the_place_and_how_to_mend_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "web.json")
            path.write_text('{\n  "tasks": {"a": {"run": "x"}}\n}')
            with self.assertRaises(vruntime.VruntimeError) as caught:
                vruntime.run(path)
        error = caught.exception
        self.assertEqual((error.file, error.line, error.column), (str(path), 2, 26))
        self.assertEqual((error.message, error.label), ("`run` is a string", "expected a number of microseconds"))
        self.assertIn("docs/rt-app.md", error.help)
        self.assertIn("web.json:2:26]", str(error))

    def test_every_one_is_told(self):
        with self.assertRaises(vruntime.VruntimeError) as caught:
            vruntime.run({"tasks": {"a": {"run": "x"}, "b": {"loop": "y"}}})
        self.assertEqual(len(caught.exception.messages), 2)
        self.assertIn("`loop` is a string", str(caught.exception))

    def test_a_line_of_json_is_one_whatever_is_in_it(self):
        with self.assertRaises(vruntime.VruntimeError) as caught:
            vruntime.run("a\u2028b\u0085.json")
        self.assertTrue(caught.exception.message.startswith("cannot read"), caught.exception.message)
        self.assertEqual(len(caught.exception.messages), 1)

    def test_causes(self):
        with self.assertRaises(vruntime.VruntimeError) as caught:
            vruntime.run("nowhere.json")
        self.assertEqual(caught.exception.causes, ("No such file or directory (os error 2)",))

    def test_what_was_meant(self):
        with self.assertRaisesRegex(vruntime.VruntimeError, "6.12"):
            vruntime.run(HOGS, kernel="6.13", duration=1)
        with self.assertRaisesRegex(vruntime.VruntimeError, "server"):
            vruntime.machine("servr")
        with self.assertRaisesRegex(vruntime.VruntimeError, "hz"):
            vruntime.run(HOGS, hz=-1)
        with self.assertRaisesRegex(vruntime.VruntimeError, "unexpected argument"):
            vruntime.command("run", "--nothing")

    def test_what_is_no_workload(self):
        for wrong in (3, None, ["web.json"]):
            with self.assertRaisesRegex(TypeError, "a workload is a file's name"):
                vruntime.run(wrong)

    def test_without_check_the_status_tells(self):
        answer = vruntime.command("run", "nowhere.json", check=False)
        self.assertEqual((answer.status, answer.text, answer.messages[0].level), (1, "", "error"))

    def test_a_command_that_is_not_there(self):
        other = mock.patch.dict(os.environ, {"VRUNTIME": "/nowhere/vruntime"})
        with other, self.assertRaisesRegex(vruntime.CommandNotFound, "'/nowhere/vruntime'"):
            vruntime.kernels()

    def test_what_is_no_such_command(self):
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder, "text")
            text.write_bytes(b"\x7fnothing")
            text.chmod(0o755)
            for named, error, expected in [
                (str(text), vruntime.CommandNotFound, "cannot start .*text"),
                (folder, vruntime.CommandNotFound, "there is no command"),
                (sys.executable, vruntime.VruntimeError, "."),
                ("/bin/echo", vruntime.VruntimeError, "printed no JSON, but: kernels"),
            ]:
                with mock.patch.dict(os.environ, {"VRUNTIME": named}), self.assertRaisesRegex(error, expected):
                    vruntime.kernels()

    @unittest.skipUnless(os.name == "posix", "a shell script stands between")
    def test_the_command_may_be_wrapped(self):
        """As by taskset or nice, in a script: the process that starts the command is not the caller."""
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "vruntime")
            script.write_text(f'#!/bin/sh\n"{vruntime._command._find()}" "$@"\n')
            script.chmod(0o755)
            with mock.patch.dict(os.environ, {"VRUNTIME": str(script)}):
                self.assertGreater(vruntime.run(HOGS, machine=1, duration="100ms").tasks["hog-0"].cpu_ns, 0)

    def test_mistakes_of_the_command_line_are_told_without_its_usage(self):
        with self.assertRaises(vruntime.VruntimeError) as caught:
            vruntime.run(HOGS, hz=0)
        self.assertNotIn("--help", str(caught.exception))

    @unittest.skipUnless(os.name == "posix", "a shell script stands in for the command")
    def test_a_command_that_dies_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "vruntime")
            for what, expected in [
                ("kill -9 $$", "was killed by signal 9"),
                ("exit 3", "status 3"),
                ("echo oh >&2; exit 101", "oh"),
            ]:
                script.write_text(f"#!/bin/sh\n{what}\n")
                script.chmod(0o755)
                other = mock.patch.dict(os.environ, {"VRUNTIME": str(script)})
                with other, self.assertRaisesRegex(vruntime.VruntimeError, expected):
                    vruntime.kernels()


class Warnings(unittest.TestCase):
    def test_they_are_pythons_and_of_the_callers_line(self):
        odd = {"tasks": {"a": {"loop": 1, "run": 1, "rum": 2}}}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run = vruntime.run(odd)
            vruntime.compare(odd, kernel=["6.1", "6.12"])
        self.assertEqual([one.category for one in caught], [vruntime.VruntimeWarning] * 2)
        self.assertEqual([one.filename for one in caught], [__file__] * 2)
        self.assertIn("rum", str(caught[0].message))
        self.assertEqual([one.level for one in run.messages], ["warning"])

    def test_strictly_they_are_errors(self):
        with self.assertRaisesRegex(vruntime.VruntimeError, "rum"):
            vruntime.run({"tasks": {"a": {"loop": 1, "run": 1, "rum": 2}}}, strict=True)

    def test_notes_are_kept(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run = vruntime.run(DEMO, duration="2s")
        self.assertEqual([one.level for one in run.messages], ["note"])
        self.assertIn("the file names several kernels", run.messages[0].message)


@unittest.skipUnless(os.name == "posix", "signals are POSIX's")
class Interrupted(unittest.TestCase):
    def test_the_command_ends_with_the_interpreter(self):
        """As a notebook is interrupted: the signal reaches Python alone."""
        self._interrupt("vruntime.run(hogs, duration=900)", 1)

    def test_so_do_the_commands_of_a_sweep(self):
        self._interrupt("vruntime.sweep(hogs, {'seed': range(100)}, duration=900, parallel=3)", 3)

    def test_in_a_terminal_what_is_written_is_whole(self):
        """The signal reaches the whole group, and each command only once."""
        with tempfile.TemporaryDirectory() as folder:
            call = f"vruntime.sweep(hogs, {{'seed': [1, 2]}}, duration=900, parallel=2, out={folder!r})"
            folders = [pathlib.Path(folder, f"seed={seed}") for seed in (1, 2)]
            # Before a run begins, it leaves nothing.
            self._interrupt(
                call, 2, os.killpg, begun=lambda: all(path.is_dir() and any(path.iterdir()) for path in folders)
            )
            for seed in (1, 2):
                left = {path.name for path in pathlib.Path(folder, f"seed={seed}").iterdir()}
                self.assertLessEqual({"results.json", "digest"}, left)

    def test_none_outlives_an_interpreter_that_is_killed(self):
        def kill(pid, _signal):
            os.kill(pid, signal.SIGKILL)

        self._interrupt("vruntime.sweep(hogs, {'seed': [1, 2]}, duration=900, parallel=2)", 2, kill, "")

    def _interrupt(self, call, commands, how=os.kill, expected="interrupted\n", begun=lambda: True):
        program = (
            # What a shell starts in the background ignores the signal, and whatever that starts does.
            "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "import vruntime\n"
            "hogs = {'tasks': {'hog': {'instance': 64, 'loop': -1, 'run': 100, 'sleep': 100}}}\n"
            "print('begins', flush=True)\n"
            f"try:\n    {call}\n"
            "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
        )
        folder = os.path.dirname(os.path.dirname(vruntime.__file__))
        with subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": folder},
            start_new_session=True,
        ) as python:
            try:
                self.assertEqual(python.stdout.readline(), "begins\n")
                # Before a command handles the signal, it would end without a word.
                while len(started := _children(python.pid)) < commands or not all(map(_handles_interrupts, started)):
                    self.assertIsNone(python.poll())
                    time.sleep(0.01)
                while not begun():
                    self.assertIsNone(python.poll())
                    time.sleep(0.01)
                how(python.pid, signal.SIGINT)
                self.assertEqual(python.communicate(timeout=60)[0], expected)
                # Those whose parent was killed are on their way.
                bound = time.monotonic() + 60
                while any(map(_runs, started)) and time.monotonic() < bound:
                    time.sleep(0.01)
                self.assertEqual([pid for pid in started if _runs(pid)], [])
            finally:
                # Whatever it has started, too: they are a session of their own.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(python.pid, signal.SIGKILL)


def _runs(pid):
    """Whether the process exists, and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _handles_interrupts(pid):
    """Whether this is a command that has begun, and not yet a copy of the interpreter that starts it."""
    try:
        with open(f"/proc/{pid}/status") as status:
            handled = next(line.split()[1] for line in status if line.startswith("SigCgt:"))
        command = not os.path.samefile(f"/proc/{pid}/exe", sys.executable)
    except OSError:
        return False
    return command and bool(int(handled, 16) >> (signal.SIGINT - 1) & 1)


def _children(pid):
    """Processes that a process has started, by any of its threads."""
    if not os.path.exists(f"/proc/self/task/{threading.get_native_id()}/children"):
        raise unittest.SkipTest("there is no /proc/PID/task/TID/children here")
    found = []
    for thread in glob.glob(f"/proc/{pid}/task/*/children"):
        # A thread may have ended since.
        with contextlib.suppress(OSError), open(thread) as children:
            found += children.read().split()
    return found
