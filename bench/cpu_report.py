"""What the benches of `lockstep bench` share: their targets, the limits of the machine, and the form of a result."""

import dataclasses
import json
import statistics
import subprocess
import sys
import time

import common

PROGRAM = "lockstep bench"
ERROR_TITLE = "lockstep"  # as in the errors of the program (src/lockstep/base/printed_error.h)


@dataclasses.dataclass(frozen=True)
class Bar:
    figure: str
    wanted: float
    at_most: bool = False

    def holds(self, value):
        return value <= self.wanted if self.at_most else value >= self.wanted

    def text(self):
        return f"at {'most' if self.at_most else 'least'} {self.wanted:g}"


RATIO = "Lockstep over PyTorch"
SHARE = "share of the limit, %"
TWO_OVER_ONE = "two workers over one"

# What each bench must reach; a figure without a bar is printed and not judged.
BARS = {
    "limits": (),
    "all-reduce": tuple(Bar(f"{size}: gloo's time over Lockstep's", wanted)
                        for size, wanted in (("64 KB", 5), ("4 MB", 10), ("244 MB", 7)))
    + tuple(Bar(f"{size}: Lockstep's time over that of a += b", 1.3, at_most=True)
            for size in ("64 KB", "4 MB", "244 MB")),
    "digits_cnn": (Bar(RATIO, 3), Bar(SHARE, 45)),
    "digits_cnn-bf16": (Bar(RATIO, 2.5),),
    "lenet": (Bar(RATIO, 2.5), Bar(TWO_OVER_ONE, 1.9)),
    "wide": (Bar(RATIO, 1.0),),
    "resnet18": (Bar(RATIO, 1.3),),
    "resnet18-bf16": (Bar(RATIO, 1.3),),
    "squeezenet": (Bar(RATIO, 1.3),),
    "squeezenet-bf16": (Bar(RATIO, 1.3),),
    "mnist-99": (Bar("mean test accuracy, %", 99.0), Bar("seconds to the model, the slowest seed", 10, at_most=True)),
}


@dataclasses.dataclass
class Result:
    """What a bench found; `figures` in the order in which they are told, the ratio and the share of a limit last."""
    trials: str
    spread: str
    tables: str
    figures: dict
    limit: str = ""  # what the share is a share of


def fail(what, hint):
    sys.exit(f"{ERROR_TITLE}: {what}\n  hint: {hint}")


def test_data(name):
    path = common.TEST_DATA / name
    if not path.exists():
        fail(f"there is no {path}", "set LOCKSTEP_TEST_DATA to the folder with the data that docs/performance.md names")
    return path


def spread(values):
    """From the smallest to the largest, as a share of the median."""
    return f"{100 * (max(values) - min(values)) / statistics.median(values):.0f} %"


class Limits:
    """Rates of one core and of all, from `lockstep bench-limits`. Measured before and after the trials; the larger
    counts, so that no share is flattered."""

    def __init__(self, lockstep, *names):
        self.command = [str(lockstep), "bench-limits", "--json", "--only", ",".join(names)]
        self.found = self.measured()

    def measured(self):
        return json.loads(subprocess.run(self.command, check=True, stdout=subprocess.PIPE, text=True).stdout)["limits"]

    def again(self):
        for name, limit in self.measured().items():
            for cores in ("one", "all"):
                self.found[name][cores] = max(self.found[name][cores], limit[cores])

    def table(self):
        return common.table(["limit, measured in the same run", "one core", "all cores"],
                            [[name, f"{limit['one']:,.1f} {limit['unit']}", f"{limit['all']:,.1f} {limit['unit']}"]
                             for name, limit in self.found.items()])


def judged(name, figures):
    """Rows of the table of figures, and which bars hold."""
    bars = {bar.figure: bar for bar in BARS[name]}
    rows, holds = [], []
    for figure, value in figures.items():
        bar = bars.pop(figure, None)
        if bar:
            holds.append(bar.holds(value))
        rows.append([figure, f"{value:,.2f}", bar.text() if bar else "", ("yes" if holds[-1] else "**no**") if bar
                     else ""])
    holds += [False] * len(bars)
    rows += [[figure, "not measured", bar.text(), "**no**"] for figure, bar in bars.items()]
    return rows, holds


def last_line(name, result):
    """The ratio, and beside it the share of the limit."""
    bars = {bar.figure: bar for bar in BARS[name]}
    words = {RATIO: "{:.2f} times PyTorch", SHARE: "{:.0f} % of " + result.limit}
    parts = []
    for figure, form in words.items():
        if figure in result.figures:
            value, bar = result.figures[figure], bars.get(figure)
            parts.append(form.format(value)
                         + (f" (target: {bar.text()}, {'met' if bar.holds(value) else '**missed**'})" if bar else ""))
    return f"{name}: {'; '.join(parts)}" if parts else ""


def run_one(name, bench, options):
    """Text of the bench's section, and which of its bars hold."""
    start, before = time.time(), common.load_average()
    result = bench.run(options)
    loads = f"load average before {before}, after {common.load_average()}"
    rows, holds = judged(name, result.figures)
    text = (f"\n## {name}\n\n{bench.summary}. {result.trials}; {loads}; {result.spread}; {time.time() - start:.0f} s "
            f"in all.\n\n{result.tables}")
    if rows:
        text += "\n" + common.table(["figure", "measured", "target", "met"], rows)
    last = last_line(name, result)
    return text + (f"\n{last}\n" if last else ""), holds
