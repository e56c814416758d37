#!/usr/bin/env python3
"""The C++ lines in docs/*.md fit the headers: a compiler accepts them, each inside of what its page says is around it.
README's program is built by example_test.py.

usage: pages_test.py COMPILER INCLUDE-FOLDER...
"""

import re
import subprocess
import sys

import runs

BEFORE = """
#include <cstdio>

#include <torch/nn.h>

#include "lockstep/lockstep.h"

using namespace lockstep;

struct Score {
  double accuracy = 0;
  static constexpr auto describe = [](auto& self, auto&& field) { field("accuracy", self.accuracy, ""); };
};
struct Settings {
  double learning_rate = 0;
  std::string network{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("learning-rate", self.learning_rate, "");
    field("network", self.network, "");
  };
};
Score digits(Worker&, const Settings&) { return {}; }
constexpr auto digits_task = task<digits>("digits"), train_task = digits_task;
double loss_at(double, const std::string&) { return 0; }
"""
# For each page what is around its blocks, which stand where @ is, in their order.
AROUND = {
    "networks.md": ["""
@
MyNetImpl::MyNetImpl(int64_t, int64_t) {}
at::Tensor MyNetImpl::forward(const at::Tensor& images) { return images; }
""", """
void networks() {
@
""", """
@
""", """
}
void use_network() {
@
}
"""],
    "jobs.md": ["void jobs(Session& session) {\n@\n}\n"],
    "clusters.md": ["void clusters(Session& session) {\n@\n}\n"],
    "sweeps.md": ["void sweeps(Session& session) {\n@\n", "@\n}\n"],
    "map.md": ["""
void map(Worker& worker, const nn::Network& network, const data::Dataset& images, int64_t epoch,
         const train::ModelLoss& loss, train::SgdmUpdate state) {
@
}
"""],
}


def program():
    text = BEFORE
    pages = {page.name: re.findall(r"^```cpp\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
             for page in sorted((runs.ROOT / "docs").glob("*.md"))}
    counts = {name: len(blocks) for name, blocks in pages.items() if blocks}
    if counts != {name: len(around) for name, around in AROUND.items()}:
        sys.exit(f"the pages have other blocks of C++ than AROUND in this file: {counts}")
    for name, around in AROUND.items():
        for block, parts in zip(pages[name], around):
            before, after = parts.split("@")
            text += f'{before}\n#line 1 "{name}"\n{block}{after}'
    # The module of the page has its constructor where the page has "...".
    return text.replace("/* ... */", "MyNetImpl(int64_t, int64_t);")


def main():
    compiler, *folders = sys.argv[1:]
    done = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-DNDEBUG", "-xc++",
                           *(f"-isystem{folder}" for folder in folders), "-"], input=program(), stderr=subprocess.PIPE,
                          text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)


if __name__ == "__main__":
    main()
