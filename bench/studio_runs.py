"""Runs that were never trained, for bench/studio, and TensorBoard's files of the same values."""

import functools
import json
import random
import struct
import time

SPIKE = 543_210  # the step of the long run whose loss stands out
SPIKE_LOSS = 9.0


def loss_at(step, noise):
    return SPIKE_LOSS if step == SPIKE else 2 / (1 + step / 1000) + noise * 0.1


def line(kind, step, seconds, sequence, values):
    return json.dumps({"kind": kind, "step": step, "epoch": step // 1000 + 1, "time": seconds, "rank": 0, "attempt": 0,
                       "sequence": sequence, "values": values}, separators=(",", ":")) + "\n"


def head_lines(log, steps, began):
    log.write(line("plan", 0, began, 0, {"network": "lenet", "folder": "/data/photos", "steps_per_epoch": 1000,
                                         "total_steps": steps, "classes": ["a", "b"], "lines": []}))
    log.write(line("environment", 0, began, 1, {"arguments": ["lockstep", "train", "/data/photos"], "host": "here",
                                                "data": "/data/photos", "workers": 2}))


def write_long_run(folder, steps):
    """The log of a run that has logged each step with all that a run says of it."""
    (folder / "events").mkdir(parents=True)
    noise = random.Random(2).random
    began = 1.79e9
    with open(folder / "events/rank-0-attempt-0.jsonl", "w", encoding="ascii") as log:
        head_lines(log, steps, began)
        for step, loss in long_losses(steps):
            now = began + step * 0.01 + noise() * 1e-3
            log.write(line("step", step, now, step + 1, {
                "loss": loss, "accuracy": noise(), "least_loss": loss, "least_loss_step": step, "largest_loss": loss,
                "largest_loss_step": step, "learning_rate": 0.01, "samples": 128, "images_per_second": 10000 * noise(),
                "seconds_left": (steps - step) * 0.01, "queue_seconds": noise() * 1e-4,
                "forward_seconds": noise() * 1e-2, "backward_seconds": noise() * 1e-2,
                "exchange_seconds": noise() * 1e-3, "hidden_exchange_seconds": 0.0, "update_seconds": noise() * 1e-3,
                "checkpoint_seconds": 0.0, "shard_workers": [0, 0, 0, 0, 1, 1, 1, 1], "page_faults": 0}))
            if step % 1000 == 0:
                log.write(line("validation", step, now, step + 1, {"loss": loss, "accuracy": 0.9, "samples": 1000,
                                                                   "best": True, "images_per_second": 1e4}))
        log.write(line("end", steps, now, steps + 2, {"reason": "finished", "seconds": 1e4, "best_step": steps}))


def write_short_runs(root, count, steps=20):
    for number in range(count):
        folder = root / f"run-{number:05}"
        (folder / "events").mkdir(parents=True)
        began = time.time() - 1000 - number
        with open(folder / "events/rank-0-attempt-0.jsonl", "w", encoding="ascii") as log:
            head_lines(log, steps, began)
            for step in range(1, steps + 1):
                log.write(line("step", step, began + step, step + 1, {"loss": 1 / (step + number), "learning_rate": 0.1}))
            log.write(line("validation", steps, began + steps, steps + 2, {"loss": 0.1, "accuracy": number / count}))
            log.write(line("end", steps, began + steps, steps + 3, {"reason": "finished", "seconds": 20.0,
                                                                    "best_step": steps}))


@functools.cache
def crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


def masked_crc(data):
    """As TFRecord files have it."""
    table, crc = crc_table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def write_for_tensorboard(folder, losses):
    """losses: (step, loss) in order."""
    from tensorboard.compat.proto.event_pb2 import Event
    folder.mkdir(parents=True)
    began = 1.79e9
    with open(folder / f"events.out.tfevents.{int(began)}.here", "wb") as file:
        def add(event):
            data = event.SerializeToString()
            size = struct.pack("<Q", len(data))
            file.write(size + struct.pack("<I", masked_crc(size)) + data + struct.pack("<I", masked_crc(data)))
        add(Event(wall_time=began, file_version="brain.Event:2"))
        for step, loss in losses:
            event = Event(wall_time=began + step * 0.01, step=step)
            event.summary.value.add(tag="step/loss", simple_value=loss)
            add(event)


def long_losses(steps):
    noise = random.Random(1).random
    return ((step, loss_at(step, noise())) for step in range(1, steps + 1))


def short_losses(number, steps=20):
    return ((step, 1 / (step + number)) for step in range(1, steps + 1))
