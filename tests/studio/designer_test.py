#!/usr/bin/env python3
"""The designer in a real Chromium: a network is drawn by mouse and by keyboard alone, a layer that does not fit is
named with both shapes and mended, and the weights of its training equal those of the same network from a file."""

import contextlib
import io
import json
import pathlib
import re
import unittest
import warnings

import torch
import torchvision

import browser
import runs

NETWORK = [{"type": "conv2d", "filters": 8, "kernel": 3, "padding": 1}, {"type": "relu"},
           {"type": "max_pool", "kernel": 2}, {"type": "flatten"}, {"type": "linear", "features": "classes"}]


class Designer(browser.Studio, unittest.TestCase):
    def setUp(self):
        self.page = self.browser.open(self.server)
        self.browser.show(self.server, "/designer", ".palette button")

    def palette(self, name):
        return self.page.locator(f".palette button:text-is('{name}')")

    def edges(self):
        """{(from, to): the shape written on it}"""
        found = self.page.locator("[data-edge]").evaluate_all(
            "edges => edges.map(edge => [edge.dataset.edge, edge.querySelector('text')?.textContent ?? ''])")
        return {tuple(ends.split("\n")): shape for ends, shape in found}

    def settled_edges(self):
        """Those that a second look finds again: shapes are written later than lines are drawn."""
        looks = [self.edges()]

        def is_settled():
            self.page.wait_for_timeout(500)
            looks.append(self.edges())
            return len(looks[-1]) > 0 and looks[-1] == looks[-2]
        runs.wait_for(is_settled, 20)
        return looks[-1]

    def drawing(self):
        return json.loads(self.page.evaluate("localStorage.getItem('lockstep-drawing')"))

    def centre(self, locator):
        box = locator.bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def drag(self, start, end):
        self.page.mouse.move(*start)
        self.page.mouse.down()
        self.page.mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, steps=3)
        self.page.mouse.move(*end, steps=3)
        self.page.mouse.up()

    def wait_for_shapes(self, count):
        self.page.wait_for_function(f"() => document.querySelectorAll('[data-edge] text').length === {count}")

    def train(self, name):
        self.page.click("button:text-is('Train…')")
        self.page.fill("#train-data", str(self.digits))
        self.page.fill("#train-max-epochs", "1")
        self.page.fill("#train-mini-batch-size", "32")
        self.page.fill("#train-workers", "2")
        self.page.click("dialog button:text-is('Train')")
        self.page.wait_for_selector("p >> text=Ended", timeout=60_000)
        command = self.page.locator("section.card .command code").first.inner_text()
        self.assertTrue(re.fullmatch(r"lockstep train \S+ --network=\S+/networks/\S+\.json --max-epochs=1 --mini-batch-size=32 "
                                     r"--workers=2 --output=\S+", command), command)
        output = self.root / f"{name}-001"
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(NETWORK))
        runs.train(self.digits, self.folder / f"{name}-again", "--network", file, "--max-epochs", "1", "--mini-batch-size", "32",
                   "--workers", "1")
        self.assertEqual(self.tensors(output), self.tensors(self.folder / f"{name}-again"))

    def tensors(self, run):
        """The numbers of the weights; their names differ."""
        data = (run / "model.safetensors").read_bytes()
        return data[8 + int.from_bytes(data[:8], "little"):]

    def test_by_mouse(self):
        for name in ("conv2d", "relu", "max pool", "linear"):
            self.palette(name).click()
        # Before the last layer is looked at, the page may say that the one before it gives no logits.
        self.page.wait_for_selector(".misfit >> text=layer \"linear_1\" (linear) needs [features], but \"max_pool_1\" returns "
                                    "[32,14,14]")
        self.assertEqual(self.page.get_attribute("button:text-is('Train…')", "disabled"), "")
        # Another mistake: the convolution's output goes straight to the linear layer.
        self.drag(self.centre(self.page.locator("[data-layer=conv2d_1] .port")), self.centre(self.page.locator("[data-layer=linear_1] .box")))
        self.page.wait_for_selector("text='layer \"linear_1\" (linear) needs [features], but \"conv2d_1\" returns [32,28,28]'")
        self.page.click("button:text-is('Undo')")
        self.page.click("button:text-is('Insert flatten before \"linear_1\"')")
        self.page.wait_for_selector("text=Ready to train")
        self.page.click("[data-layer=conv2d_1]")
        self.page.fill("#option-filters", "8")
        self.wait_for_shapes(5)
        runs.wait_for(lambda: self.edges().get(("flatten_1", "linear_1")) == "1568", 20)
        self.assertEqual(self.edges(), {("input", "conv2d_1"): "1 × 28 × 28", ("conv2d_1", "relu_1"): "8 × 28 × 28",
                                        ("relu_1", "max_pool_1"): "8 × 28 × 28", ("max_pool_1", "flatten_1"): "8 × 14 × 14",
                                        ("flatten_1", "linear_1"): "1568"})
        before = self.drawing()["layers"][1]
        box = self.centre(self.page.locator("[data-layer=relu_1] .title"))
        self.drag(box, (box[0] + 150, box[1] + 10))
        runs.wait_for(lambda: self.drawing()["layers"][1]["x"] > before["x"] + 50, 20)
        self.page.click("button:text-is('Analysis')")
        self.assertIn("15,690", self.page.inner_text(".analysis"))
        self.assertEqual(self.browser.axe_findings(), [])
        self.train("network")

    def test_by_keyboard_alone(self):
        press = self.page.keyboard.press
        for name in ("conv2d", "relu", "flatten", "linear"):
            self.palette(name).focus()
            press("Enter")
        self.page.wait_for_selector("text=Ready to train")
        # A pool between, from the palette, after the ReLU, which the arrow keys reach.
        self.page.locator("[data-layer=input]").focus()
        press("ArrowDown")
        press("ArrowDown")
        self.assertEqual(self.page.evaluate("document.activeElement.dataset.layer"), "relu_1")
        self.palette("max pool").focus()
        press("Enter")
        runs.wait_for(lambda: ("max_pool_1", "flatten_1") in self.edges(), 20)
        # A wrong connection, and back.
        self.page.locator("[data-layer=conv2d_1]").focus()
        press("c")
        self.page.locator("[data-layer=linear_1]").focus()
        press("Enter")
        self.page.wait_for_selector("text='layer \"linear_1\" (linear) needs [features], but \"conv2d_1\" returns [32,28,28]'")
        press("Control+z")
        self.page.wait_for_selector("text=Ready to train")
        self.page.locator("[data-layer=relu_1]").focus()
        press("Delete")
        self.page.wait_for_function("() => !document.querySelector('[data-layer=relu_1]')")
        runs.wait_for(lambda: ("conv2d_1", "max_pool_1") in self.edges(), 20)
        press("Control+z")
        press("Control+y")
        press("Control+z")
        runs.wait_for(lambda: ("relu_1", "max_pool_1") in self.edges(), 20)

    def test_one_undo_takes_back_one_thing(self):
        self.palette("conv2d").click()
        self.palette("flatten").click()
        self.page.click("button:text-is('Undo')")
        runs.wait_for(lambda: [layer["name"] for layer in self.drawing()["layers"]] == ["conv2d_1"], 20)
        self.page.click("button:text-is('Undo')")
        runs.wait_for(lambda: self.drawing()["layers"] == [], 20)
        self.page.click("button:text-is('Redo')")
        box = self.centre(self.page.locator("[data-layer=conv2d_1] .title"))
        self.drag(box, (box[0] + 150, box[1] + 10))
        self.page.fill("#option-filters", "8")
        runs.wait_for(lambda: self.drawing()["layers"][0]["options"]["filters"] == 8, 20)
        place = self.drawing()["layers"][0]["x"]
        self.page.click("button:text-is('Arrange')")
        runs.wait_for(lambda: self.drawing()["layers"][0]["x"] != place, 20)
        self.page.click("button:text-is('Undo')")
        runs.wait_for(lambda: self.drawing()["layers"][0]["x"] == place, 20)
        self.assertEqual(self.drawing()["layers"][0]["options"]["filters"], 8)

    def test_the_export_says_when_its_file_is_saved(self):
        self.page.select_option("select[aria-label^=Start]", "lenet")
        self.page.wait_for_selector("text=Ready to train")
        self.page.click("button:text-is('Export…')")
        self.page.wait_for_selector("dialog .command:has-text('/networks/')")
        self.page.wait_for_selector("dialog >> text=is saved when you press Export")
        self.page.click("dialog button:text-is('Cancel')")

    def test_starts_from_built_in_networks_and_opens_what_it_saves(self):
        for name, layers in (("resnet18", 69), ("lstm_classifier", 2), ("squeezenet", 66)):
            self.page.select_option("select[aria-label^=Start]", name)
            self.page.wait_for_selector("text=Ready to train")
            self.page.wait_for_function(f"() => document.querySelectorAll('[data-layer]').length === {layers + 1}")
        before = self.settled_edges()
        with self.page.expect_download() as download:
            self.page.click("button:text-is('Save')")
        file = self.folder / "saved.json"
        download.value.save_as(file)
        self.page.select_option("select[aria-label^=Start]", "empty")
        self.page.wait_for_function("() => document.querySelectorAll('[data-layer]').length === 1")
        self.page.set_input_files("input[type=file]", file)
        self.page.wait_for_function("() => document.querySelectorAll('[data-layer]').length === 67")
        self.page.wait_for_selector("text=Ready to train")
        runs.wait_for(lambda: self.edges() == before, 20)
        printed = json.loads(runs.run("network", "show", file, "--json", "--image-size", "224x224", "--color", "rgb", "--classes", "1000"))
        self.assertEqual(printed["learnables"], json.loads(runs.run("network", "show", "squeezenet", "--json"))["learnables"])

    def test_opens_mobilenet_that_torch_has_exported(self):
        torch.manual_seed(3)
        module = torchvision.models.mobilenet_v2(weights=None, num_classes=10).eval()
        file = self.folder / "mobilenet.onnx"
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(module, (torch.rand(1, 3, 64, 96),), file, dynamo=False)
        self.page.fill("#open-path", str(file))
        self.page.click("form.weights button:text-is('Open')")
        self.page.wait_for_selector("text=Ready to train", timeout=60_000)
        self.assertEqual(self.drawing()["input"], {"channels": 3, "height": 64, "width": 96, "classes": 10, "time_steps": 0})
        self.assertEqual([self.page.input_value(f"#input-{name}") for name in ("channels", "height", "width")], ["3", "64", "96"])
        # The exporter makes batch norms part of the convolutions before them, which then have a bias.
        convolutions = [layer for layer in module.modules() if isinstance(layer, torch.nn.Conv2d)]
        learnables = sum(layer.weight.numel() + layer.out_channels for layer in convolutions) + sum(values.numel() for values in module.classifier.parameters())
        runs.wait_for(lambda: f"{learnables:,} learnables" in self.page.inner_text(".status"), 20)
        self.assertEqual(sum(layer["type"] == "conv2d" for layer in self.drawing()["layers"]), len(convolutions))
        self.page.click("button:text-is('Analysis')")
        self.page.click("button:text-is('Measure time')")
        self.page.wait_for_selector(".probe:has-text('A step of 16 samples takes')", timeout=60_000)
        shares = [float(text.removesuffix(" %")) for text in self.page.locator(".analysis td.time").all_inner_texts()]
        self.assertEqual(len(shares), len(self.drawing()["layers"]))
        self.assertAlmostEqual(sum(shares), 100, delta=0.5)
        self.assertRegex(self.page.inner_text(".probe .command code"), r"^lockstep network show \S+/networks/mobilenet-\S+\.json --classes=10 "
                         r"--image-size=64x96 --color=rgb --time=16 --json$")
        self.assertEqual(self.browser.axe_findings(), [])

    def test_the_data_are_seen_before_the_training(self):
        bad = self.folder / "some <digits>"
        for label in ("<b>one", "two"):
            (bad / label).mkdir(parents=True, exist_ok=True)
        images = sorted(self.digits.rglob("*.png"))[:12]
        for number, image in enumerate(images):
            (bad / ("<b>one" if number < 8 else "two") / image.name).write_bytes(image.read_bytes())
        (bad / "two" / "zz.png").write_bytes(b"\x89PNG no picture")
        self.page.select_option("select[aria-label^=Start]", "digits_cnn")
        self.page.wait_for_selector("text=Ready to train")
        self.page.click("button:text-is('Train…')")
        self.page.fill("#train-data", str(bad))
        self.page.press("#train-data", "Tab")
        self.page.wait_for_selector(".data-seen:has-text('13 images of 2 classes')")
        rows = self.page.locator(".data-seen tbody tr")
        self.assertEqual([row.locator("th, td.number").all_inner_texts() for row in rows.all()], [["<b>one", "8"], ["two", "5"]])
        self.assertEqual([row.locator("img").count() for row in rows.all()], [6, 4])
        self.page.wait_for_function("() => [...document.querySelectorAll('.data-seen img')].every(image => image.naturalWidth === 28)")
        self.assertEqual(self.page.locator(".data-seen .unread").count(), 1)
        self.assertEqual(self.browser.axe_findings(), [])
        self.check_the_plan()
        self.page.fill("#train-data", str(self.folder / "nothing"))
        self.page.press("#train-data", "Tab")
        self.page.wait_for_selector("dialog .problem:has-text('nothing')")
        self.browser.complaints[:] = [one for one in self.browser.complaints if not one.startswith("400 POST")]
        self.page.click("dialog button:text-is('Cancel')")

    def check_the_plan(self):
        for name in ("max-epochs", "mini-batch-size", "learning-rate"):
            self.assertEqual(self.page.get_attribute(f"#train-{name}", "placeholder"), "chosen by the recipe")
        self.assertEqual(self.page.input_value("#train-optimizer"), "")
        self.page.fill("#train-max-epochs", "abc")
        self.page.click("dialog button:text-is('Show the plan')")
        self.page.wait_for_selector("dialog .refused:has-text('abc')")
        self.page.wait_for_function("""() => document.querySelector('dialog .refused').getBoundingClientRect().bottom
          <= document.querySelector('dialog').getBoundingClientRect().bottom""")
        self.page.fill("#train-max-epochs", "")
        self.page.fill("#train-mini-batch-size", "128")
        self.page.click("dialog button:text-is('Show the plan')")
        self.page.wait_for_selector("dialog .command:has-text('--mini-batch-size=128')", timeout=60_000)
        self.assertIn("--network=digits_cnn ", self.page.inner_text("dialog .command code"))
        self.check_switches()

    def check_switches(self):
        """One that is on by default can be turned off, and on again."""
        self.page.click("dialog summary:text-is('All options')")
        self.assertTrue(self.page.is_checked("#train-average-updaters"))
        self.page.uncheck("#train-overlap")
        self.page.wait_for_selector("dialog .command", state="detached")  # that of before
        self.page.click("dialog button:text-is('Show the plan')")
        self.page.wait_for_selector("dialog .command:has-text('--overlap=false')", timeout=60_000)
        self.page.check("#train-overlap")
        self.page.click("dialog button:text-is('Show the plan')")
        self.page.wait_for_selector("dialog .command:not(:has-text('--overlap'))", timeout=60_000)

    def test_the_form_knows_what_a_recipe_chooses(self):
        sources = pathlib.Path(__file__).resolve().parents[2] / "src/lockstep"
        chosen = set(re.findall(r'set\("([\w-]+)"', (sources / "train/planning/recipe.cpp").read_text()))
        listed = re.search(r"ofRecipe = new Set\(\[(.*?)\]", (sources / "studio/pages/fields.js").read_text(), re.DOTALL)[1]
        # A network says auto by itself, a switch has no placeholder, and steps are chosen only with a budget.
        self.assertEqual(set(re.findall(r'"([\w-]+)"', listed)), chosen - {"network", "nesterov", "max-steps"})

    def test_the_drawing_stays_in_view_of_a_smaller_window(self):
        self.page.select_option("select[aria-label^=Start]", "digits_cnn")
        self.page.wait_for_selector("text=Ready to train")
        self.page.set_viewport_size({"width": 390, "height": 844})
        runs.wait_for(lambda: 0 < self.centre(self.page.locator("[data-layer=input] .box"))[0] < 390, 20)

    def layers_out_of_view(self):
        return self.page.locator("[data-layer]").evaluate_all("""boxes => {
          const sheet = document.querySelector('svg.sheet').getBoundingClientRect();
          const isOut = ({ top, bottom }) => top < sheet.top || bottom > sheet.bottom;
          return boxes.filter(one => isOut(one.getBoundingClientRect())).map(one => one.dataset.layer);
        }""")

    def test_a_large_network_is_in_view_as_a_whole_and_where_the_keyboard_is(self):
        self.page.select_option("select[aria-label^=Start]", "resnet50")
        self.page.wait_for_selector("text=Ready to train")
        self.page.locator("[data-layer=input]").focus()
        for _ in range(30):
            self.page.keyboard.press("ArrowDown")
        here = self.page.evaluate("document.activeElement.dataset.layer")
        self.assertTrue(here.startswith("layer"), here)
        self.assertNotIn(here, self.layers_out_of_view())
        self.assertIn("fc", self.layers_out_of_view())
        self.page.click("button:text-is('Fit')")
        runs.wait_for(lambda: not self.layers_out_of_view(), 20)

    def test_hostile_files_are_refused(self):
        for number, text in enumerate(("{", "[]", '{"layers": [{"type": "<script>alert(1)</script>"}]}', "[" * 10_000, '{"layers": 7}',
                                       '{"layers": [{"name": "\\u202egnp,exe", "type": "relu"}]}')):
            file = self.folder / f"bad-{number}.json"
            file.write_text(text)
            self.page.set_input_files("input[type=file]", file)
            self.page.wait_for_selector(".middle > .problem")
            self.page.wait_for_timeout(200)
            self.browser.complaints[:] = [one for one in self.browser.complaints if not one.startswith("400 POST")]

    def test_hostile_names_are_text(self):
        names = ["<script>alert(1)</script>", "'><img/src=x/onerror=alert(1)>", "\u200fgnp,exe", "\u05e9\u05dc\u05d5\u05dd", "a" * 200]
        file = self.folder / "hostile.json"
        file.write_text(json.dumps({"name": names[0], "layers": [{"name": name, "type": "relu"} for name in names]}))
        self.page.set_input_files("input[type=file]", file)
        self.page.wait_for_function("() => document.querySelectorAll('[data-layer]').length === 6")
        self.page.click("button:text-is('Analysis')")
        for name in names:
            self.page.click(f".analysis button:text-is({json.dumps(name, ensure_ascii=False)})")
            self.page.wait_for_function("name => document.querySelector('#layer-name')?.value === name", arg=name)
        file.write_text(json.dumps([{"name": "a" * 10_000, "type": "relu"}]))
        self.page.set_input_files("input[type=file]", file)
        self.page.wait_for_selector(".middle > .problem")
        self.assertEqual(self.page.locator("main img, main script").count(), 0)
        self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"), 0)
        self.browser.complaints.clear()  # the last file was refused

    def test_groups_are_made_folded_and_frozen(self):
        for name in ("conv2d", "relu", "max pool", "flatten", "linear"):
            self.palette(name).click()
        self.page.wait_for_selector("text=Ready to train")
        for number, name in enumerate(("conv2d_1", "relu_1", "max_pool_1")):
            self.page.click(f"[data-layer={name}] .title", modifiers=["Shift"] if number else [])
        self.page.fill("#group-name", "first")
        self.page.click(".inspector button:text-is('Group')")
        self.page.wait_for_selector("[data-frame=first]")
        self.wait_for_shapes(5)
        self.assertIn(("first.max_pool_1", "flatten_1"), self.edges())
        self.page.click("button:text-is('Fold')")
        self.page.wait_for_selector("[data-layer='first/']:has-text('3 layers')")
        self.assertEqual(set(self.edges()), {("input", "first.conv2d_1"), ("first.max_pool_1", "flatten_1"), ("flatten_1", "linear_1")})
        self.page.click("button:text-is('Freeze')")
        self.page.wait_for_selector("[data-layer='first/'] .mark:text-is('frozen')")
        self.assertEqual(self.browser.axe_findings(), [])
        self.page.click("button:text-is('Train…')")
        self.page.fill("#train-data", str(self.digits))
        self.page.click("dialog button:text-is('Show the plan')")
        self.page.wait_for_selector("dialog .plan:has-text('frozen')")
        self.assertIn("--freeze=first", self.page.inner_text("dialog .command code"))
        self.page.click("dialog button:text-is('Cancel')")
        self.page.click("button:text-is('Unfold')")
        self.page.wait_for_selector("[data-layer='first.relu_1']")
        self.page.click("button:text-is('Ungroup')")
        self.page.wait_for_selector("[data-layer=relu_1]")
        self.page.click("button:text-is('Undo')")
        self.page.wait_for_selector("[data-layer='first.relu_1']")
        self.page.select_option("select[aria-label^=Start]", "resnet18")
        self.page.wait_for_selector("[data-frame=layer1]")
        self.page.focus("[data-layer=conv1]")
        self.page.click("[data-frame=layer1] text")
        self.page.click("button:text-is('Fold')")
        self.page.wait_for_selector("[data-layer='layer1/']")
        self.assertIn(("maxpool", "layer1.0.conv1"), self.edges())

    def test_axe_finds_nothing(self):
        for scheme, width in browser.LOOKS:
            self.page = self.browser.open(self.server, width=width, scheme=scheme)
            self.browser.show(self.server, "/designer", ".palette button")
            self.page.select_option("select[aria-label^=Start]", "digits_cnn")
            self.page.wait_for_selector("text=Ready to train")
            self.assertEqual(self.browser.axe_findings(), [], f"{width} pixels, {scheme}")
            self.page.click("button:text-is('Train…')")
            self.page.wait_for_selector("#train-max-epochs")
            self.assertEqual(self.browser.axe_findings(), [], f"the dialog, {width} pixels, {scheme}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
