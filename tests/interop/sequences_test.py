"""torch.nn.LSTM, torch.nn.GRU, torch.nn.Conv1d and torch.nn.LayerNorm take our trained weights strictly and give the
scores that `lockstep predict` gives, over sequences of unequal length. JapaneseVowels is used where
$LOCKSTEP_TEST_DATA has it, and sequences made here besides.

usage: sequences_test.py PATH-OF-lockstep     (needs torch, safetensors)
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "flow"))
import runs
import sequences

MOST_DIFFERENCE = 1e-5


class Classifier(torch.nn.Module):
    def __init__(self, kind, channels, hidden, layers, classes):
        super().__init__()
        self.add_module(kind.__name__.lower(), kind(channels, hidden, layers))
        self.fc = torch.nn.Linear(hidden, classes)

    def forward(self, sequence):
        recurrent, fc = self.children()
        return fc(recurrent(sequence)[0][-1])


class Convolutions(torch.nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.conv = torch.nn.Conv1d(channels, 12, 3, padding="same")
        self.norm = torch.nn.LayerNorm(12)
        self.bilstm = torch.nn.LSTM(12, 9, bidirectional=True)
        self.fc = torch.nn.Linear(18, classes)

    def forward(self, sequence):
        values = self.norm(self.conv(sequence.t()).relu().t())
        return self.fc(self.bilstm(values)[0].amax(0))


def read_ts(path):
    """Sequences [T,C], in order."""
    found = []
    for line in path.read_text().splitlines():
        if line and line[0] not in "#@":
            found.append(torch.tensor([[float(value) for value in channel.split(",")]
                                       for channel in line.split(":")[:-1]]).t().contiguous())
    return found


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, arguments))}\nended with {done.returncode}:\n{done.stderr}"
    return done.stdout


def check(program, output, data, network, model, *options):
    run(program, "train", data, "--network", network, "--output", output, "--workers", 2, "--mini-batch-size", 27,
        "--max-epochs", 5, "--optimizer", "adam", "--recipe", "plain", *options)
    predicted = json.loads(run(program, "predict", output, data, "--format", "json"))
    model.load_state_dict(load_file(output / "model.safetensors"), strict=True)
    with torch.no_grad():
        expected = torch.stack([model(sequence).softmax(0) for sequence in read_ts(data)])
    found = torch.tensor([list(one["scores"].values()) for one in predicted])
    difference = (found - expected).abs().max().item()
    assert difference <= MOST_DIFFERENCE, f"{output.name}: scores differ by {difference}"
    print(f"{output.name}: {len(found)} sequences, scores differ by at most {difference:.1e}")


def main(program):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = folder / "made.ts"
        sequences.write_ts(made, 90, seed=1)
        layers = [{"name": "gru", "type": "gru", "hidden": 20, "layers": 2},
                  {"name": "fc", "type": "linear", "features": "classes"}]
        (folder / "gru.json").write_text(json.dumps(layers))
        check(program, folder / "gru", made, folder / "gru.json", Classifier(torch.nn.GRU, 2, 20, 2, 3),
              "--sequence-padding", "left")
        layers = [{"name": "conv", "type": "conv1d", "filters": 12, "kernel": 3}, {"type": "relu"},
                  {"name": "norm", "type": "layer_norm"},
                  {"name": "bilstm", "type": "bilstm", "hidden": 9, "output": "sequence"},
                  {"type": "global_max_pool"}, {"name": "fc", "type": "linear", "features": "classes"}]
        (folder / "convolutions.json").write_text(json.dumps(layers))
        check(program, folder / "convolutions", made, folder / "convolutions.json", Convolutions(2, 3))
        check(program, folder / "lstm", made, "lstm_classifier", Classifier(torch.nn.LSTM, 2, 100, 1, 3))
        vowels = Path(os.environ.get("LOCKSTEP_TEST_DATA", "")) / "sequences" / "JapaneseVowels_TRAIN.ts"
        if vowels.exists():
            check(program, folder / "vowels", vowels, "lstm_classifier", Classifier(torch.nn.LSTM, 12, 100, 1, 9))
        else:
            runs.skip("JapaneseVowels", "set LOCKSTEP_TEST_DATA to a folder that has sequences/JapaneseVowels_TRAIN.ts")


main(sys.argv[1])
