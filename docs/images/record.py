#!/usr/bin/env python3
"""Makes an animated image of a command in a terminal: runs it in a pseudo-terminal and draws its output as an SVG file.

usage: record.py [--seconds N] [--title TEXT] [--recording FILE] IMAGE.svg COMMAND [ARGUMENT...]

  --seconds N       seconds that the image plays before its last frame stays for a while (default 15); the title bar
                    shows the speed
  --title TEXT      the command that the image shows (default: the command that was run)
  --recording FILE  keep the output in this file; if the file exists, draw it again and run nothing

The README's images, from the root of the repository, after scripts/first-run:

  docs/images/record.py --title "lockstep train digits" docs/images/train.svg \\
    build/release/bin/lockstep train build/data/digits --output runs/image
  cp runs/image/curves.svg docs/images/curves.svg

Lines and Braille dots are drawn as paths, so that the image does not depend on the reader's fonts. CSS animates the
image; for readers who ask for less motion it shows the last frame."""

import argparse
import fcntl
import html
import json
import os
import pathlib
import pty
import re
import struct
import sys
import termios
import time

COLUMNS, ROWS = 100, 40
FRAMES_PER_SECOND = 6
TYPING_SECONDS, STAY_SECONDS = 1.2, 6.0
CELL_WIDTH, CELL_HEIGHT = 8.0, 18.0
MARGIN, TITLE_BAR = 16.0, 34.0
TEXT, BACKGROUND, BAR = "#dfe5ec", "#12161c", "#1d232b"
# Of the 256 colours of terminals, those that the program uses; each is a class of the picture's style.
COLORS = {"244": "#8b929b", "68": "#6f9fdb", "172": "#e0913a", "71": "#6cba6c"}
# Each sign is strokes in a cell of 1 by 1.
SIGNS = {
    "─": ["M0 .5H1"], "━": ["M0 .5H1"], "╸": ["M0 .5H.5"], "╺": ["M.5 .5H1"], "│": ["M.5 0V1"],
    "┤": ["M.5 0V1", "M0 .5H.5"],
    "└": ["M.5 0V.5H1"], "┬": ["M0 .5H1", "M.5 .5V1"], "┴": ["M0 .5H1", "M.5 0V.5"], "┼": ["M0 .5H1", "M.5 0V1"],
}
HEAVY = "━╸╺"
BRAILLE = 0x2800
# Dot i of a Braille sign: its column and row among two and four.
BRAILLE_DOTS = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)]


def record(command):
    """What the command prints, as pairs of seconds and text."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm-256color"
        try:
            os.execvp(command[0], command)
        except OSError as error:
            print(error)
            os._exit(127)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    start, pieces, pending = time.monotonic(), [], b""
    while True:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # Linux's way to say that the other end is closed
            break
        if not data:
            break
        pending += data
        # A sign of several bytes may be cut by the read.
        whole = len(pending)
        while whole > 0 and pending[whole - 1] & 0xC0 == 0x80:
            whole -= 1
        if whole > 0 and pending[whole - 1] >= 0xC0:
            whole -= 1
            if len(pending) - whole >= {0xC0: 2, 0xD0: 2, 0xE0: 3, 0xF0: 4}[pending[whole] & 0xF0]:
                whole = len(pending)
        else:
            whole = len(pending)
        pieces.append([round(time.monotonic() - start, 3), pending[:whole].decode("utf-8", "replace")])
        pending = pending[whole:]
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        sys.exit(f"record.py: the command ended with status {status}:\n" + "".join(text for _, text in pieces))
    return pieces


class Screen:
    """As much of a terminal as the program's output needs. A cell is a sign, a colour and whether it is bold."""

    PARTS = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")
    BLANK = (" ", "", False)

    def __init__(self):
        self.rows = [[] for _ in range(ROWS)]
        self.row = self.column = 0
        self.color, self.bold = "", False

    def put(self, text):
        for numbers, letter, control, plain in self.PARTS.findall(text):
            if letter:
                self.control(numbers, letter)
            elif control == "\r":
                self.column = 0
            elif control == "\n":
                self.row += 1
                if self.row >= ROWS:
                    sys.exit(f"record.py: the output has more than {ROWS} lines; raise ROWS")
            else:
                for sign in plain:
                    cells = self.rows[self.row]
                    cells.extend([self.BLANK] * (self.column + 1 - len(cells)))
                    cells[self.column] = (sign, self.color, self.bold)
                    self.column += 1

    def control(self, numbers, letter):
        first = int(numbers.split(";")[0] or 0) if "?" not in numbers else 0
        if letter == "m":
            codes = numbers.split(";") if numbers else ["0"]
            if codes[:2] == ["38", "5"]:
                self.color = codes[2]
            elif codes == ["0"]:
                self.color, self.bold = "", False
            elif codes == ["1"]:
                self.bold = True
        elif letter == "K":
            del self.rows[self.row][self.column:]
        elif letter == "J":
            del self.rows[self.row][self.column:]
            for row in range(self.row + 1, ROWS):
                self.rows[row] = []
        elif letter == "A":
            self.row = max(0, self.row - (first or 1))
        elif letter == "B":
            self.row = min(ROWS - 1, self.row + (first or 1))
        elif letter == "C":
            self.column += first or 1
        elif letter == "G":
            self.column = (first or 1) - 1

    def frame(self):
        return [tuple(row) for row in self.rows]


def frames_of(pieces, seconds):
    """The screen at each moment that is shown: pairs of the picture's seconds and rows."""
    screen, frames = Screen(), []
    length = pieces[-1][0]
    shown = -1
    for when, text in pieces:
        frame = int(when / length * seconds * FRAMES_PER_SECOND)
        if frame != shown and shown >= 0:
            frames.append((shown / FRAMES_PER_SECOND, screen.frame()))
        shown = frame
        screen.put(text)
    frames.append((seconds, screen.frame()))
    return frames


def number(value):
    return f"{value:.2f}".rstrip("0").rstrip(".")


def runs_of(cells):
    """Neighbours that look alike: where they begin, their signs, colour, boldness, and kind: text, line, heavy or dots.
"""

    def kind_of(sign):
        if sign in SIGNS:
            return "heavy" if sign in HEAVY else "line"
        return "dots" if BRAILLE < ord(sign) <= BRAILLE + 255 else "text"

    begin = 0
    while begin < len(cells):
        sign, color, bold = cells[begin]
        kind = kind_of(sign)
        end = begin + 1
        while end < len(cells) and cells[end][1:] == (color, bold) and kind_of(cells[end][0]) == kind:
            end += 1
        yield begin, "".join(cell[0] for cell in cells[begin:end]), color, bold, kind
        begin = end


def strokes_of(begin, signs, kind):
    path = []
    for index, sign in enumerate(signs):
        left = (begin + index) * CELL_WIDTH
        if kind == "dots":
            for dot, (column, row) in enumerate(BRAILLE_DOTS):
                if (ord(sign) - BRAILLE) >> dot & 1:
                    path.append(
                        f"M{number(left + (column + 0.5) * CELL_WIDTH / 2)} {number((row + 0.5) * CELL_HEIGHT / 4)}h0")
            continue
        for stroke in SIGNS[sign]:
            # A stroke along a whole cell goes on from the one before it.
            if stroke == "M0 .5H1" and path and path[-1].startswith("M") and path[-1].endswith(f"H{number(left)}"):
                path[-1] = path[-1][: path[-1].rindex("H")] + f"H{number(left + CELL_WIDTH)}"
                continue
            x, y = (float(value) for value in re.match(r"M(\S+) (\.?\d+)", stroke).groups())
            text = f"M{number(left + x * CELL_WIDTH)} {number(y * CELL_HEIGHT)}"
            for letter, value in re.findall(r"([HV])([.\d]+)", stroke):
                end = left + float(value) * CELL_WIDTH if letter == "H" else float(value) * CELL_HEIGHT
                text += f"{letter}{number(end)}"
            path.append(text)
    return "".join(path)


def draw_row(cells):
    strokes, text = {}, []
    for begin, signs, color, bold, kind in runs_of(cells):
        if kind != "text":
            strokes.setdefault((color, kind), []).append(strokes_of(begin, signs, kind))
            continue
        # Blanks separate words, and each word is placed separately, so that another font's widths do not add up.
        for word in re.finditer(r"\S+(?: \S+)*", signs):
            style = " ".join(name for name in (f"c{color}" if color in COLORS else "", "b" if bold else "") if name)
            attributes = f' class="{style}"' if style else ""
            width = number(len(word.group()) * CELL_WIDTH)
            x = number((begin + word.start()) * CELL_WIDTH)
            text.append(
                f'<text x="{x}" y="13.5" '
                f'textLength="{width}"{attributes}>{html.escape(word.group(), quote=False)}</text>')
    paths = [f'<path class="{kind[0]} s{color if color in COLORS else ""}" d="{"".join(parts)}"/>'
             for (color, kind), parts in strokes.items()]
    return "".join(paths + text)


def row_versions(frames, row):
    """What stands in a row: triples of its seconds from and to (None: to the end), and its cells."""
    versions = []
    for when, rows in frames:
        cells = rows[row]
        while cells and cells[-1][0] == " ":
            cells = cells[:-1]
        if versions and versions[-1][2] == cells:
            continue
        if versions:
            versions[-1][1] = when
        versions.append([when, None, cells])
    return [version for version in versions if version[2]]


def picture(frames, title, seconds, speed):
    total = TYPING_SECONDS + seconds + STAY_SECONDS
    lines = max(row for row in range(ROWS) if frames[-1][1][row]) + 1
    width, height = COLUMNS * CELL_WIDTH + 2 * MARGIN, TITLE_BAR + (lines + 1) * CELL_HEIGHT + 2 * MARGIN
    style, body = [], []

    def percent(when):
        return number(100 * when / total) + "%"

    def show(content, row, begin, end):
        name = f"k{len(style)}"
        hidden_after = f"{percent(end)}{{visibility:hidden}}" if end is not None else ""
        style.append(
            f"@keyframes {name}{{0%{{visibility:hidden}}{percent(begin)}{{visibility:visible}}{hidden_after}}}")
        still = "" if end is None else ' class="v"'
        body.append(
            f'<g{still} style="animation-name:{name}" transform="translate(0 '
            f'{number(row * CELL_HEIGHT)})">{content}</g>')

    typed = "$ " + title
    for length in range(2, len(typed) + 1):
        begin = TYPING_SECONDS * 0.8 * (length - 2) / (len(typed) - 1) + 0.01
        end = TYPING_SECONDS * 0.8 * (length - 1) / (len(typed) - 1) + 0.01 if length < len(typed) else None
        cells = [("$", "244", False)] + [(sign, "", True) for sign in typed[1:length]]
        show(draw_row(cells), 0, begin, end)
    for row in range(lines):
        for begin, end, cells in row_versions(frames, row):
            show(draw_row(cells), row + 1, TYPING_SECONDS + begin, None if end is None else TYPING_SECONDS + end)

    colors = "".join(f".c{code}{{fill:{color}}}.s{code}{{stroke:{color}}}" for code, color in COLORS.items())
    font = "ui-monospace,'SFMono-Regular','DejaVu Sans Mono',Menlo,Consolas,'Liberation Mono',monospace"
    dots = "".join(f'<circle cx="{x}" cy="{TITLE_BAR / 2:g}" r="5" fill="#3a424d"/>' for x in (20, 38, 56))
    faster = f"shown {number(round(speed, 1))} times as fast" if speed > 1.05 else ""
    size = f'width="{number(width)}" height="{number(height)}"'
    still = "@media (prefers-reduced-motion:reduce){g[style]{animation:none!important}}"
    bar = f"M0 {TITLE_BAR:g}V9a9 9 0 0 1 9-9H{number(width - 9)}a9 9 0 0 1 9 9V{TITLE_BAR:g}z"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(width)} {number(height)}" {size} role="img" '
            f'aria-label="{html.escape(title)} in a terminal">\n'
            f"<style>text{{font:13.2px {font};fill:{TEXT};white-space:pre}}.b{{font-weight:700}}"
            f"path{{fill:none;stroke:{TEXT};stroke-width:1.2}}.h{{stroke-width:3}}"
            f".d{{stroke-width:2.6;stroke-linecap:round}}{colors}\n"
            f".v{{visibility:hidden}}g[style]{{animation:{number(total)}s step-end infinite}}{still}\n"
            f'{"".join(style)}</style>\n'
            f'<rect width="100%" height="100%" rx="9" fill="{BACKGROUND}"/>'
            f'<path d="{bar}" style="fill:{BAR};stroke:none"/>{dots}\n'
            f'<text x="{number(width / 2)}" y="22" text-anchor="middle" class="c244">{html.escape(title)}</text>'
            f'<text x="{number(width - MARGIN)}" y="22" text-anchor="end" class="c244">{faster}</text>\n'
            f'<g transform="translate({MARGIN:g} {number(TITLE_BAR + MARGIN)})">\n'
            f"{chr(10).join(body)}\n"
            "</g></svg>\n")


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--title")
    parser.add_argument("--recording", type=pathlib.Path)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("picture", type=pathlib.Path, nargs="?")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if arguments.help or arguments.picture is None or not arguments.command:
        print(__doc__)
        return
    if arguments.recording and arguments.recording.exists():
        pieces = json.loads(arguments.recording.read_text())
    else:
        pieces = record(arguments.command)
        if arguments.recording:
            arguments.recording.write_text(json.dumps(pieces))
    length = pieces[-1][0]
    seconds = min(arguments.seconds, length)
    title = arguments.title or " ".join(arguments.command)
    arguments.picture.write_text(picture(frames_of(pieces, seconds), title, seconds, length / seconds))


if __name__ == "__main__":
    main()
