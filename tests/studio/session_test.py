#!/usr/bin/env python3
"""Whole sessions in a real Chromium, by mouse and by keyboard alone: digits_cnn is drawn on an empty sheet, connected
wrongly and mended, trained on 2 workers, watched, stopped, resumed, compared and exported; its weights equal those of
the same network from JSON. Then SqueezeNet's weights get a new head by hand and train on plants, as a job."""

import contextlib
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import unittest

import browser
import runs

SMALL = {"type": "conv2d", "filters": 20, "kernel": 3, "padding": 1}
NORM, RELU = {"type": "batch_norm"}, {"type": "relu"}
DIGITS_CNN = [{"type": "conv2d", "filters": 20, "kernel": 5}, NORM, RELU, SMALL, NORM, RELU, SMALL, NORM, RELU,
              {"type": "flatten"}, {"type": "linear", "features": "classes"}]
OPTIONS = {"max-epochs": "60", "mini-batch-size": "32", "workers": "2", "seed": "3", "recipe": "plain"}
DATA = pathlib.Path(os.environ.get("LOCKSTEP_TEST_DATA", runs.ROOT.parent / "shared/data"))
# What these weights were trained with: the means of red, green and blue, and no deviation.
NORMALIZE = "123/255,1/255,117/255,1/255,104/255,1/255"
HAS_DATA = (DATA / "squeezenet1_0-imagenet.safetensors").exists() and (DATA / "plants-jpg.tar").exists()


def tensors(run):
    """The numbers of the weights; their names differ."""
    data = (run / "model.safetensors").read_bytes()
    return data[8 + int.from_bytes(data[:8], "little"):]


@contextlib.contextmanager
def held(run):
    """The training makes no step: a short one must not end before a slow browser has found the button."""
    found = subprocess.run(["pgrep", "-f", "--", f"--output={run}$"], capture_output=True, text=True, check=True).stdout
    for process in found.split():
        os.kill(int(process), signal.SIGSTOP)
    try:
        yield
    finally:
        for process in found.split():
            os.kill(int(process), signal.SIGCONT)


class Mouse:
    """What a user does with the pointer; text is typed."""

    def __init__(self, page):
        self.page = page

    def press(self, selector):
        self.page.click(selector)

    def write(self, selector, text):
        self.page.click(selector)
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)

    def choose(self, selector, value):
        self.page.select_option(selector, value)

    def open_details(self, selector):
        self.page.click(selector)

    def add(self, name):
        self.page.click(f".palette button:text-is('{name.replace('_', ' ')}')")

    def select_layer(self, name):
        self.page.click(f"[data-layer={name}] .title")

    def connect(self, start, end):
        ends = [self.page.locator(f"[data-layer={start}] .port").bounding_box(), self.page.locator(f"[data-layer={end}] .box").bounding_box()]
        (x, y), (to_x, to_y) = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in ends]
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move((x + to_x) / 2, (y + to_y) / 2, steps=3)
        self.page.mouse.move(to_x, to_y, steps=3)
        self.page.mouse.up()

    def undo(self):
        self.page.click("button:text-is('Undo')")


class Keyboard:
    """What a user does without a pointer: nothing here touches the page but through keys."""

    def __init__(self, page):
        self.page = page

    def go_to(self, selector, key="Tab"):
        self.page.wait_for_selector(selector)
        element = self.page.locator(selector).first
        for _ in range(200):
            if element.evaluate("element => element === document.activeElement"):
                return
            self.page.keyboard.press(key)
        raise AssertionError(f"{selector} cannot be reached with {key}")

    def press(self, selector):
        self.go_to(selector)
        self.page.keyboard.press("Space" if "checkbox" in selector else "Enter")

    def write(self, selector, text):
        self.go_to(selector)
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)

    def choose(self, selector, value):
        self.go_to(selector)
        self.page.keyboard.type(value)

    def open_details(self, selector):
        self.press(selector)

    def add(self, name):
        self.page.keyboard.press("/")
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(name.replace("_", " "))
        self.page.wait_for_function("text => [...document.querySelectorAll('.palette button')][0]?.innerText === text", arg=name.replace("_", " "))
        self.page.keyboard.press("Enter")

    def select_layer(self, name):
        self.go_to(f"[data-layer={name}]")

    def connect(self, start, end):
        self.select_layer(start)
        self.page.keyboard.press("c")
        self.go_to(f"[data-layer={end}]")
        self.page.keyboard.press("Enter")

    def undo(self):
        self.page.keyboard.press("Control+z")


class Session(browser.Studio, unittest.TestCase):
    @classmethod
    def prepare(cls):
        os.environ["LOCKSTEP_JOBS"] = str(cls.folder / "jobs")
        network = cls.folder / "digits_cnn.json"
        network.write_text(json.dumps(DIGITS_CNN))
        runs.train(cls.digits, cls.root / "reference", "--network", network, *(f"--{name}={value}" for name, value in OPTIONS.items()),
                   "--workers=1")

    def setUp(self):
        self.page = self.browser.open(self.server)

    def test_by_mouse(self):
        self.session(Mouse(self.page), "drawn_by_mouse")

    def test_by_keyboard_alone(self):
        self.session(Keyboard(self.page), "drawn_by_keys")

    def session(self, hand, name):
        hand.press("nav a:text-is('Designer')")
        self.page.wait_for_selector(".palette button")
        self.draw(hand)
        hand.write("input[aria-label='Name of the network']", name)
        self.page.keyboard.press("Enter")
        self.assertEqual(self.browser.axe_findings(), [])
        command = self.train(hand)
        self.assertEqual(command[-1], f"--output={self.root}/{name}-001")
        run = self.root / f"{name}-001"
        self.stop_and_resume(hand, run)
        self.assertEqual(tensors(run), tensors(self.root / "reference"), "the weights of the network from JSON")
        self.export(hand, run)
        self.compare(hand, run.name)

    def draw(self, hand):
        for number, layer in enumerate(DIGITS_CNN[:9]):
            hand.add(layer["type"])
            if layer["type"] == "conv2d":
                name = f"conv2d_{1 + number // 3}"
                self.page.wait_for_selector(f"[data-layer={name}]")
                hand.select_layer(name)
                hand.write("#option-filters", "20")
                hand.write("#option-kernel", str(layer["kernel"]))
                hand.write("#option-padding", str(layer.get("padding", 0)))
                self.page.keyboard.press("Escape")
        # The classifier straight after the last activation: the page says what does not fit, and mends it.
        hand.add("linear")
        self.page.wait_for_selector('.misfit >> text=layer "linear_1" (linear) needs [features], but "relu_3" returns [20,24,24]')
        hand.press("button:text-is('Insert flatten before \"linear_1\"')")
        self.page.wait_for_selector("text=Ready to train")
        # A wrong connection, and back.
        hand.connect("relu_2", "linear_1")
        self.page.wait_for_selector('.misfit >> text="linear_1" (linear) needs [features], but "relu_2" returns [20,24,24]')
        hand.undo()
        self.page.wait_for_selector("text=Ready to train")
        drawn = self.page.evaluate("JSON.parse(localStorage.getItem('lockstep-drawing')).layers")
        self.assertEqual([layer["type"] for layer in drawn], [layer["type"] for layer in DIGITS_CNN])
        runs.wait_for(lambda: "123,090 learnables" in self.page.inner_text(".status"), 20)

    def train(self, hand):
        hand.press("button:text-is('Train…')")
        self.page.wait_for_selector("#train-max-epochs")
        hand.write("#train-data", str(self.digits))
        for name in ("max-epochs", "mini-batch-size", "workers", "seed"):
            hand.write(f"#train-{name}", OPTIONS[name])
        hand.open_details("dialog summary")
        hand.choose("#train-recipe", OPTIONS["recipe"])
        hand.press("dialog button:text-is('Show the plan')")
        self.page.wait_for_selector("dialog .plan")
        self.assertEqual(self.browser.axe_findings(), [])
        words = shlex.split(self.page.inner_text("dialog .command code"))
        hand.press("dialog button:text-is('Train')")
        self.page.wait_for_selector("p >> text=Running", timeout=60_000)
        return words

    def stop_and_resume(self, hand, run):
        runs.wait_for(lambda: runs.steps_done(run) > 0)
        with held(run):
            self.page.wait_for_function("() => /[1-9]/.test(document.querySelectorAll('.tile dd')[2]?.textContent)")
            hand.press("button:text-is('Stop')")
            hand.press("dialog button:text-is('Stop')")
            self.page.wait_for_selector("dialog", state="detached")
        self.page.wait_for_selector("p >> text=Stopped", timeout=30_000)
        self.assertLess(runs.steps_done(run), 360)
        hand.press("button:text-is('Resume')")
        hand.press("dialog button:text-is('Resume')")
        self.page.wait_for_selector("p >> text=Ended", timeout=60_000)
        self.page.wait_for_selector("figure.chart canvas")

    def export(self, hand, run):
        hand.press("button:text-is('Export…')")
        self.page.wait_for_selector("dialog .command")
        hand.press("dialog button:text-is('Export')")
        link = f".exported a:has-text('{run.name}.onnx')"
        self.page.wait_for_selector(link, timeout=60_000)
        with self.page.expect_download() as download:
            hand.press(link)
        got = pathlib.Path(download.value.path()).read_bytes()
        again = self.folder / "again.onnx"
        runs.run("export", run, again)
        self.assertEqual(got, again.read_bytes())

    def compare(self, hand, name):
        hand.press("nav a:text-is('Runs')")
        for one in (name, "reference"):
            hand.press(f"tr:has(bdi:text-is('{one}')) input[type=checkbox]")
        hand.press(".tools >> text=/^Compare/")
        self.page.wait_for_selector("table.side")
        text = self.page.inner_text("main")
        self.assertIn(name, text)
        self.assertIn("reference", text)
        self.page.wait_for_selector("figure.chart canvas")
        hand.press("button:text-is('Weights…')")
        self.page.wait_for_selector("dialog .command")
        hand.press("dialog button:text-is('Compare')")
        self.page.wait_for_selector("pre.output:has-text('same weights')", timeout=60_000)

    @unittest.skipUnless(HAS_DATA, "there are no weights of SqueezeNet")
    def test_new_head_on_trained_weights_as_a_job(self):
        weights = DATA / "squeezenet1_0-imagenet.safetensors"
        plants = self.plants(150 if runs.IS_LONG else 8)
        hand = Mouse(self.page)
        self.browser.show(self.server, "/designer", ".palette button")
        hand.write("#open-path", str(weights))
        hand.press("form.weights button:text-is('Open')")
        self.page.wait_for_selector(".filled:has-text('fills 26 of 26 layers')", timeout=60_000)
        hand.write("#input-classes", "10")
        self.page.wait_for_selector(".filled:has-text('fills 25 of 26 layers')")
        # By hand: the classifier is cut off and a new one is put in its place.
        self.page.wait_for_selector("text=Ready to train")
        self.select("features.12.concatenate")
        hand.press("button:text-is('Cut after this layer')")
        for name in ("conv2d", "relu", "global average pool", "flatten"):
            hand.add(name)
        self.select("conv2d_1")
        hand.write("#option-filters", "classes")
        hand.write("#option-kernel", "1")
        hand.write("#option-padding", "0")
        self.page.wait_for_selector("text=Ready to train")
        self.page.wait_for_selector(".origin:has-text('New weights: the file has no such layer')")
        hand.write("#layer-rate", "10")
        self.select("features.12.concatenate")
        hand.press("button:text-is('Freeze up to here')")
        self.page.wait_for_selector("[data-layer='features.0'].frozen")
        self.assertEqual(self.browser.axe_findings(), [])
        self.train_as_job(hand, plants, weights)

    def plants(self, most):
        folder = self.folder / "plants"
        with tarfile.open(DATA / "plants-jpg.tar") as tar:
            counts = {}
            for member in tar:
                path = pathlib.PurePosixPath(member.name)
                if not member.isfile() or path.suffix != ".jpg" or counts.get(path.parent.name, 0) >= most:
                    continue
                counts[path.parent.name] = counts.get(path.parent.name, 0) + 1
                (folder / path.parent.name).mkdir(parents=True, exist_ok=True)
                (folder / path.parent.name / path.name).write_bytes(tar.extractfile(member).read())
        self.assertEqual(len(counts), 10)
        return folder

    def select(self, name):
        """A layer, wherever on the sheet it is."""
        self.page.click("button:text-is('Fit')")
        self.page.click(f"[data-layer='{name}'] .box")

    def train_as_job(self, hand, plants, weights):
        hand.press("button:text-is('Train…')")
        self.page.wait_for_selector("#train-max-epochs")
        hand.write("#train-data", str(plants))
        short = () if runs.IS_LONG else (("max-epochs", "1"), ("mini-batch-size", "16"))  # otherwise as the recipe chooses
        for name, text in (*short, ("workers", "2"), ("image-size", "227x227" if runs.IS_LONG else "64x64"), ("normalize", NORMALIZE)):
            hand.write(f"#train-{name}", text)
        hand.press("label:has-text('Put it into the queue') input")
        hand.press("dialog button:text-is('Train')")
        self.page.wait_for_selector("h1:text-is('Jobs')", timeout=60_000)
        self.page.click("tbody td a")
        self.page.wait_for_selector("p .state-ended", timeout=900_000 if runs.IS_LONG else 120_000)
        words = shlex.split(self.page.locator(".command code").first.inner_text())
        for word in (f"--weights={weights}", "--head=new", "--new-layers=conv2d_1", "--freeze=features", "--learning-rate-factors=conv2d_1=10"):
            self.assertIn(word, words)
        self.page.click("text=Its run")
        self.page.wait_for_selector(".tile:has-text('Held-out accuracy')")
        run = next(self.root.glob("squeezenet-*"))
        self.assertEqual(len(runs.of_kind(run, "end")), 1)
        accuracy = runs.of_kind(run, "validation")[-1]["values"]["accuracy"]
        if runs.IS_LONG:
            self.assertGreater(accuracy, 0.8)
        print(f"plants: held-out accuracy {accuracy:.3f}", flush=True)


if __name__ == "__main__":
    program = unittest.main(verbosity=2, exit=HAS_DATA)
    if not program.result.wasSuccessful():
        sys.exit(1)
    runs.skip("transfer learning from SqueezeNet's weights in studio", "LOCKSTEP_TEST_DATA names the folder of squeezenet1_0-imagenet.safetensors "
              "and plants-jpg.tar")
