"""Images of every kind that Pillow writes come out as Pillow reads them, within 1 level, and resized to the same
levels.

usage: images_test.py PATH-OF-lockstep_data_interop     (needs Pillow, NumPy, torchvision)
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch
from PIL import Image, ImageFilter, ImageOps
from torchvision.transforms import InterpolationMode, TrivialAugmentWide, functional
from torchvision.transforms.autoaugment import _apply_op

ORIENTATION = 0x0112


class Reader:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def read(self, path, channels=0, height=0, width=0, resize="stretch", decode="exact"):
        self.process.stdin.write(f"{path} {channels} {height} {width} {resize} {decode}\n".encode())
        self.process.stdin.flush()
        head = self.process.stdout.readline().decode().strip()
        if head.startswith("error"):
            raise AssertionError(f"{path}: {head}")
        shape = tuple(map(int, head.split()))
        return numpy.frombuffer(self.process.stdout.read(numpy.prod(shape)), numpy.uint8).reshape(shape)

    def refusal(self, path):
        try:
            self.read(path)
        except AssertionError as error:
            return str(error)
        raise AssertionError(f"{path} was read")


def planes(image):
    array = numpy.asarray(image)
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def most_difference(ours, image):
    theirs = planes(image)
    assert ours.shape == theirs.shape, f"{ours.shape}, and Pillow's is {theirs.shape}"
    return int(numpy.abs(ours.astype(int) - theirs.astype(int)).max())


def photo(width, height, mode="RGB", seed=1, cell=6):
    """Smooth in parts and noisy in others, as photographs are."""
    random = numpy.random.default_rng(seed)
    channels = {"L": 1, "RGB": 3, "RGBA": 4, "LA": 2, "CMYK": 4}[mode]
    noise = random.integers(0, 256, (max(2, height // cell), max(2, width // cell), 3), dtype=numpy.uint8)
    colours = numpy.asarray(Image.fromarray(noise).resize((width, height),
                                                          Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(1)))
    colours = colours.astype(int) + random.integers(-6, 7, colours.shape)
    array = numpy.concatenate([colours, colours[..., ::-1]], 2)[..., :channels].clip(0, 255).astype(numpy.uint8)
    return Image.fromarray(array[..., 0] if channels == 1 else array, mode)


def kinds():
    """Name, image, options of Pillow's save, and whether the file has colours."""
    grey, colour, alpha, grey_alpha, ink = (photo(61, 47, mode) for mode in ("L", "RGB", "RGBA", "LA", "CMYK"))
    palette = colour.quantize(50)
    few = colour.quantize(13)
    bits = grey.point(lambda level: 255 * (level > 127)).convert("1")
    deep = Image.fromarray((numpy.asarray(grey).astype(numpy.uint16) * 256 + 77).astype(numpy.uint16))
    clear = palette.copy()
    clear.info["transparency"] = 3

    for quality in (30, 75, 95):
        for subsampling in ("4:4:4", "4:2:2", "4:2:0", "4:1:1"):
            yield f"q{quality}-{subsampling.replace(':', '')}.jpg", colour, {"quality": quality,
                                                                             "subsampling": subsampling}
    yield "progressive.jpg", colour, {"progressive": True}
    yield "grey.jpeg", grey, {}
    yield "ink.jpg", ink, {}
    yield "restart.jpg", colour, {"restart_marker_blocks": 2}
    for name, image in (("grey", grey), ("colour", colour), ("alpha", alpha), ("grey-alpha", grey_alpha),
                        ("palette", palette), ("few", few), ("bits", bits), ("deep", deep)):
        yield f"{name}.png", image, {}
    yield "clear.png", palette, {"transparency": 3}
    yield "clear-grey.png", grey, {"transparency": 3}
    for name, image in (("grey", grey), ("colour", colour), ("palette", palette), ("bits", bits), ("alpha", alpha)):
        yield f"{name}.bmp", image, {}
    yield "grey.pgm", grey, {}
    yield "colour.ppm", colour, {}
    for name, image in (("grey", grey), ("colour", colour), ("palette", palette), ("bits", bits), ("alpha", alpha),
                        ("grey-alpha", grey_alpha), ("ink", ink), ("deep", deep)):
        yield f"{name}.tif", image, {}
    for compression in ("tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"):
        yield f"{compression}.tiff", colour, {"compression": compression}
    yield "alpha-jpeg.tif", alpha, {"compression": "jpeg"}
    yield "big.tif", colour, {"big_tiff": True}
    yield "fax.tif", bits, {"compression": "group4"}
    yield "lossless.webp", colour, {"lossless": True}
    yield "alpha.webp", alpha, {"lossless": True}
    yield "lossy.webp", colour, {"quality": 80}


def expected(path):
    image = Image.open(path)
    has_colour = image.mode not in ("L", "LA", "1", "I;16", "I", "I;16B")
    if image.mode.startswith("I"):  # Pillow clips these levels instead of scaling them
        return Image.fromarray((numpy.asarray(image).astype(int) >> 8).astype(numpy.uint8))
    if image.mode == "LA":
        return image.getchannel("L")
    return image.convert("RGB" if has_colour else "L")


def check_kinds(reader, folder):
    count, worst = 0, 0
    for name, image, options in kinds():
        path = folder / name
        image.save(path, **options)
        try:
            difference = most_difference(reader.read(path), expected(path))
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None
        assert difference <= 1, f"{name}: {difference} levels off"
        count, worst = count + 1, max(worst, difference)
    print(f"{count} kinds of files, at most {worst} level off", flush=True)


def check_orientations(reader, folder):
    image = photo(40, 23)
    for ending, options in ((".jpg", {"quality": 90, "subsampling": "4:2:0"}), (".png", {}),
                            (".webp", {"lossless": True}), (".tif", {})):
        for orientation in range(1, 9):
            exif = Image.Exif()
            exif[ORIENTATION] = orientation
            path = folder / f"turned-{orientation}{ending}"
            image.save(path, exif=exif, **options)
            turned = ImageOps.exif_transpose(Image.open(path))
            difference = most_difference(reader.read(path), turned.convert("RGB"))
            assert difference <= 1, f"{path.name}: {difference} levels off"
            small = reader.read(path, 3, 16, 12)
            difference = most_difference(small, turned.convert("RGB").resize((12, 16), Image.Resampling.BILINEAR))
            assert difference <= 1, f"{path.name} resized: {difference} levels off"
    print("8 orientations of JPEG, PNG, WebP and TIFF", flush=True)


def resized(image, height, width, resize):
    if resize == "stretch":
        return image.resize((width, height), Image.Resampling.BILINEAR)
    if resize == "crop":
        return ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)
    return ImageOps.pad(image, (width, height), Image.Resampling.BILINEAR)


def check_sizes(reader, folder):
    sizes = [(1, 1), (3, 5), (17, 16), (31, 64), (100, 33), (227, 227), (500, 375), (311, 475), (40, 900)]
    count = 0
    for seed, (width, height) in enumerate(sizes):
        for mode in ("RGB", "L"):
            image = photo(width, height, mode, seed)
            path = folder / f"size-{width}x{height}-{mode}.png"
            image.save(path)
            for to_width, to_height in [*sizes, (28, 28), (13, 227), (1000, 7)]:
                for resize in ("stretch", "crop", "pad"):
                    scale = min(to_width / width, to_height / height)
                    if resize == "pad" and min(width, height) * scale <= 0.5:
                        continue  # Pillow leaves nothing of the image
                    for to_mode, channels in (("RGB", 3), ("L", 1)):
                        ours = reader.read(path, channels, to_height, to_width, resize)
                        theirs = resized(image.convert(to_mode), to_height, to_width, resize)
                        difference = most_difference(ours, theirs)
                        assert difference == 0, (f"{mode} {width}x{height} to {to_mode} {to_width}x{to_height}, "
                                                 f"{resize}: {difference} levels off")
                        count += 1
    print(f"{count} resizings, level for level", flush=True)


def check_fast(reader, folder):
    """Fast decoding gives the same image to the eye: the mean difference from exact decoding is a few levels, also
    where it turns and pads."""
    worst = 0.0
    for subsampling in ("4:4:4", "4:2:2", "4:2:0", "4:4:0", "4:1:1"):
        for width, height in ((640, 480), (333, 517), (230, 229)):
            path = folder / f"fast-{subsampling.replace(':', '')}-{width}.jpg"
            exif = Image.Exif()
            exif[ORIENTATION] = 6 if width == 333 else 1
            save = {} if subsampling == "4:4:0" else {"subsampling": subsampling}
            photo(width, height, cell=24).save(path, quality=90, exif=exif, **save)
            for resize in ("stretch", "crop", "pad"):
                for channels in (1, 3):
                    exact = reader.read(path, channels, 120, 100, resize).astype(int)
                    fast = reader.read(path, channels, 120, 100, resize, "fast").astype(int)
                    difference = numpy.abs(exact - fast).mean()
                    assert difference < 4, f"{path.name} {resize} {channels}: {difference:.1f} levels off in the mean"
                    worst = max(worst, difference)
    print(f"fast decoding: at most {worst:.2f} levels off in the mean", flush=True)


def check_refusals(reader, folder):
    colour = photo(61, 47)
    colour.save(folder / "real.jpg")
    (folder / "named.png").write_bytes((folder / "real.jpg").read_bytes())
    assert most_difference(reader.read(folder / "named.png"), Image.open(folder / "real.jpg")) <= 1
    colour.save(folder / "moving.gif")
    (folder / "gif.jpg").write_bytes((folder / "moving.gif").read_bytes())
    assert "it is not a JPEG, but a GIF" in reader.refusal(folder / "gif.jpg")
    for ending in ("bmp", "ppm", "tif", "webp", "jpg", "png"):
        path = folder / f"cut.{ending}"
        colour.save(path)
        path.write_bytes(path.read_bytes()[:-2000])
        reader.refusal(path)
    colour.save(folder / "moving.webp", save_all=True, append_images=[photo(61, 47, seed=9)])
    assert "animated" in reader.refusal(folder / "moving.webp")
    colour.save(folder / "odd.tif", compression="zstd")
    assert "compression" in reader.refusal(folder / "odd.tif")


def check_changes(reader, folder):
    """Each operation of TrivialAugmentWide with all its magnitudes, and RandomAffine's: torchvision's pixels. Where a
    place lies in the middle of two pixels, torchvision's float32 may take the other one, so a few pixels may differ (all,
    if an image with one odd side is turned by 90 degrees)."""
    space = TrivialAugmentWide()._augmentation_space(31)
    spread, path = numpy.random.default_rng(1), folder / "pixels"
    for channels, height, width in ((3, 32, 46), (1, 28, 28)):
        # Smooth with some noise, so that a shifted place is not hidden, and neither is a level.
        rows = numpy.linspace(0, 200, height)[:, None] + numpy.linspace(0, 40, width)[None, :]
        pixels = (rows[None] + spread.integers(0, 16, (channels, height, width))).astype(numpy.uint8)
        path.write_bytes(pixels.tobytes())
        image = torch.from_numpy(pixels)

        def check(name, words, expected, most, image=image):
            reader.process.stdin.write(f"{path} {' '.join(map(str, image.shape))} change {words}\n".encode())
            reader.process.stdin.flush()
            shape = tuple(map(int, reader.process.stdout.readline().decode().split()))
            found = numpy.frombuffer(reader.process.stdout.read(numpy.prod(shape)), numpy.uint8).reshape(shape)
            share = (found != expected.numpy()).mean()
            assert share <= most, f"{name}: {100 * share:.2f} % of the pixels differ"
            return share

        worst = {}
        for name, (magnitudes, signed) in space.items():
            geometric = name in ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
            for place in range(31 if magnitudes.ndim else 1):
                for sign in (1, -1) if signed else (1,):
                    magnitude = sign * float(magnitudes[place] if magnitudes.ndim else 0)
                    expected = _apply_op(image, name, magnitude, InterpolationMode.NEAREST, None)
                    share = check(f"{name} {magnitude}", f"{name} {magnitude!r}", expected, 0.005 if geometric else 0)
                    worst[name] = max(worst.get(name, 0), share)
        for angle, scale, shear in ((10, 1, 0), (-33.3, 0.9, 7), (90, 1.2, 0), (0, 1.1, -12.5)):
            expected = functional.affine(image, angle, [0, 0], scale, [shear, 0.0])
            check(f"affine {angle} {scale} {shear}", f"affine={angle}/{scale}/{shear} 0", expected, 0.005)
        print(f"{channels}x{height}x{width}: pixels that differ from torchvision's: " +
              ", ".join(f"{name} {100 * share:.2f} %" for name, share in worst.items() if share), flush=True)


def main():
    with tempfile.TemporaryDirectory(prefix="lockstep-interop-") as name:
        reader, folder = Reader(sys.argv[1]), Path(name)
        check_kinds(reader, folder)
        check_orientations(reader, folder)
        check_sizes(reader, folder)
        check_fast(reader, folder)
        check_refusals(reader, folder)
        check_changes(reader, folder)


main()
