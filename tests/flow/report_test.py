#!/usr/bin/env python3
"""`lockstep report`: one page that needs nothing else, with the run's curves, confusions and worst mistakes, whatever
its files are called."""

import base64
import html.parser
import json
import os
import pathlib
import re
import shutil
import struct
import unittest
import zlib

import runs
import sequences

VOID = {"meta", "img", "link", "br", "hr", "input"}
HOSTILE = "<img src=x onerror=alert(1)> & \"quotes\" 'n' \u202ereversed"


class Page(html.parser.HTMLParser):
    """What a browser makes of a page: its elements, its texts, and whether each closes what it opened."""

    def __init__(self, path):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        self.texts.append(data)

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def text(self):
        return " ".join("".join(self.texts).split())


def png_size(data):
    assert data.startswith(b"\x89PNG"), data[:8]
    return struct.unpack(">II", data[16:24])


def grey_png(side, level):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes((level + x * y) % 256 for x in range(side)) for y in range(side))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR",
                                        struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0,
                                                    0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Report(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.trained = cls.folder / "run"
        runs.train(cls.digits, cls.trained, "--validation-split", "0.3", *runs.SMALL)

    def page_of(self, run, *arguments, output=None):
        printed = runs.run("report", run, *arguments, *(["--output", output] if output else []))
        path = pathlib.Path(output or run / "report.html")
        self.assertTrue(printed.endswith(f"report: {path}\n"), printed)  # before it: notes
        page = Page(path)
        self.assertEqual(page.open, [])
        self.check_self_contained(page)
        return page

    def check_self_contained(self, page):
        for tag, attributes in page.elements:
            self.assertNotIn(tag, {"script", "link", "iframe", "object", "embed", "base", "form"})
            for name, value in attributes.items():
                self.assertFalse(name.startswith("on"), f"<{tag} {name}>")
                if name in {"src", "href", "action", "data"}:
                    self.assertTrue(value.startswith("data:image/"), f"<{tag} {name}={value[:40]}>")
        self.assertNotRegex(page.source, r"url\((?!#)|@import")

    def test_the_page_has_the_figures_of_the_run(self):
        page = self.page_of(self.trained)
        end = runs.of_kind(self.trained, "end")[-1]["values"]
        self.assertIn(f"{100 * end['accuracy']:.2f}", page.text())
        self.assertIn("Confusion matrix", page.text())
        self.assertEqual(len(page.of("svg")), 1)
        counts = re.findall(r'<td class="(?:right|wrong)[^>]*>(\d+)</td>', page.source)
        self.assertEqual(sum(map(int, counts)), runs.of_kind(self.trained, "validation")[-1]["values"]["samples"])

    def test_the_worst_mistakes_are_shown_as_images(self):
        page = self.page_of(self.trained, self.held_out, output=self.folder / "judged.html")
        mistakes = json.loads(runs.run("evaluate", self.trained, self.held_out, "--exact", "--json"))["mistakes"]
        self.assertGreater(len(mistakes), 2, "the network should not be good at it")
        images = page.of("img")
        self.assertEqual([image["alt"] for image in images], [one["file"] for one in mistakes[:24]])
        for image in images:
            self.assertEqual(png_size(base64.b64decode(image["src"].split(",", 1)[1])), (28, 28))
        self.assertIn(f"{len(mistakes)} of 40 images of {self.held_out} are answered wrongly", page.text())
        self.assertEqual(len(self.page_of(self.trained, self.held_out, "--images", 2,
                                          output=self.folder / "two.html").of("img")), 2)

    def test_the_same_page_for_any_number_of_workers(self):
        pages = [self.page_of(self.trained, "--workers", workers, output=self.folder / f"{workers}.html").source
                 for workers in (1, 3)]
        self.assertEqual(*pages)

    def test_hostile_names_are_shown_and_do_nothing(self):
        data, run = self.folder / "hostile", self.folder / "hostile run"
        for number, name in enumerate((HOSTILE, "plain")):
            (data / name).mkdir(parents=True)
            for image in range(12):
                (data / name / f"{image}<b>bold{HOSTILE.replace('/', '')}.png").write_bytes(
                    grey_png(9, image * 20 + number))
        runs.train(data, run, "--max-steps", 1, "--mini-batch-size", 8)
        page = self.page_of(run, data)
        self.assertIn("the run was trained on 22 of these images", "".join(page.texts))
        self.assertNotIn("b", {tag for tag, attributes in page.elements if "bold" in str(attributes)})
        self.assertIn(HOSTILE, "".join(page.texts))
        self.assertTrue(any(HOSTILE in image["alt"] for image in page.of("img")))

    def test_training_writes_it_at_the_end(self):
        run = self.folder / "with report"
        printed = runs.train(self.digits, run, "--report", *runs.SMALL, "--max-steps", 3)
        self.assertIn(f"report: {run / 'report.html'}\n", printed)
        self.assertIn("Worst mistakes", Page(run / "report.html").text())

    def test_data_that_are_gone(self):
        """The rest is shown, and both the page and the terminal say what is missing."""
        data, run = self.folder / "gone", self.folder / "gone run"
        shutil.copytree(self.digits, data)
        runs.train(data, run, *runs.SMALL, "--max-steps", 3)
        (data / "3" / "more.png").write_bytes(grey_png(28, 0))
        runs.run("report", run)
        self.assertIn("has other files than when the run began", Page(run / "report.html").text())
        shutil.rmtree(data)
        printed = runs.run("report", run)
        self.assertIn("the report has the confusion matrix of the best validation, and no mistakes", printed)
        page = Page(run / "report.html")
        self.assertIn("Not judged on images", page.text())
        self.assertEqual(len(page.of("svg")), 1)
        self.assertIn("is not a run folder", runs.run("report", self.digits, status=1))
        self.assertIn("nowhere", runs.run("report", run, self.folder / "nowhere", status=1))

    def test_a_run_that_saw_its_data_from_another_folder(self):
        there, here = self.folder / "there", self.folder / "here"
        there.mkdir()
        here.mkdir()
        data = os.path.relpath(self.digits, there)
        runs.run("train", data, *runs.SMALL, "--max-steps", "3", "--output", "run", folder=there)
        shutil.move(there / "run", here / "run")
        self.assertNotIn("cannot show", runs.run("report", "run", folder=here))
        self.assertNotIn("cannot show", runs.run("report", "here/run", folder=self.folder))

    def test_labels_are_read_as_the_run_read_them(self):
        data, run = self.folder / "rooms", self.folder / "rooms run"
        for number, name in enumerate(("cat/kitchen", "cat/garden", "dog/kitchen", "dog/garden")):
            (data / name).mkdir(parents=True)
            for image in range(8):
                (data / name / f"{image}.png").write_bytes(grey_png(9, image * 20 + number))
        runs.train(data, run, "--labels", "top", "--max-steps", 2, "--mini-batch-size", 8)
        evaluation = json.loads(runs.run("evaluate", run, data, "--json"))
        self.assertEqual([(one["name"], one["samples"]) for one in evaluation["classes"]], [("cat", 16), ("dog", 16)])
        self.assertIn("the run was trained on", runs.run("evaluate", run, data))
        self.assertIn("32 images of", self.page_of(run, data).text())
        self.assertIn("held-out images of", self.page_of(run).text())
        printed = runs.run("evaluate", run, data, "--labels", "folder", status=2)
        self.assertIn('a class "garden" that is not among', printed)
        runs.train(data, run, "--resume")

    def test_samples_that_were_trained_on_are_counted(self):
        both, run = self.folder / "both", self.folder / "both run"
        train, test = both / "train", both / "test"
        runs.write_digits({train: 60, test: 20})
        fewer = [*runs.SMALL, "--max-steps", 3]
        self.assertNotIn("among the training data", runs.run("plan", train, "--test", test))
        self.assertIn(f"warning: all 60 images of --test {train}/. are among the training data",
                      runs.run("plan", train, "--test", f"{train}/."))
        self.assertIn(f"warning: 60 of the 80 images of --validation {both} are among",
                      runs.run("plan", train, "--validation", both))
        table, image = self.folder / "one.csv", next(train.glob("3/*.png"))
        table.write_text(f"file,label\n{image.relative_to(self.folder)},3\n")
        self.assertIn(f"warning: the only image of --test {table} is among the training data, so the accuracy on it says",
                      runs.run("plan", train, "--test", table))
        runs.train(train, run, *fewer, "--test", train)
        said = "\n".join(event["values"]["text"] for event in runs.of_kind(run, "message"))
        self.assertIn("all 60 images of --test", said)
        trained = runs.of_kind(run, "plan")[-1]["values"]["train_count"]

        def note(folder):
            return "\n".join(line for line in runs.run("evaluate", run, folder).splitlines() if "trained on" in line)

        self.assertEqual(note(test), "")
        self.assertEqual(note(both), f"the run was trained on {trained} of them")
        twin = self.folder / "twin"  # other images of the same names
        for image in train.glob("*/*.png"):
            (twin / image.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(next(test.glob(f"{image.parent.name}/*.png")), twin / image.parent.name / image.name)
        self.assertIn(f"the run may have been trained on {trained} of them: they have the names of its", note(twin))
        archive = shutil.make_archive(self.folder / "archive", "tar", both, "train")
        self.assertIn(f"the run may have been trained on {trained} of them: they have the names of its", note(archive))
        self.assertIn(f"the run was trained on {trained} of them; lockstep report", note(train))
        shutil.copy(next(test.glob("3/*.png")), train / "3" / "more.png")
        self.assertEqual(note(train),
                         "the run may have been trained on them: the run's training data have other files now")
        train.rename(self.folder / "moved")
        self.assertEqual(note(test), "whether the network was trained on them is unknown: the run's training data are "
                                     f'not at "{train}" any more')

    def test_sequences_have_a_table_of_mistakes(self):
        data, run = self.folder / "waves.ts", self.folder / "waves run"
        sequences.write_ts(data, 60, seed=3)
        runs.train(data, run, "--max-epochs", 1, "--validation-split", "0.5")
        page = self.page_of(run)
        self.assertEqual(page.of("img"), [])
        self.assertIn("held-out sequences", page.text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
