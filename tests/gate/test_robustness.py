"""`bivshap gate` and `bivshap report` on disks that cannot be read and on files that were changed: exit code 2, always.

Changed files have the right checksums, as if a program had written them, so that nothing but their content shows it.
"""

import errno
import json
import os
import random
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from bivshap_lightning.audit.record_files import checksum
from bivshap_lightning.gate import calibrate, save_calibration
from tests.audit.test_record import STRANGE, at, changed, is_same_kind, places_in
from tests.faults import READING, FaultyDisk
from tests.gate.importance_records import retrains, save
from tests.records import STACK, P, npz, true_fields, write
from tests.test_cli import call, refused

CODES = [errno.ENOSPC, errno.EIO, errno.EINTR, errno.EACCES]
COMMANDS = ("gate", "report")


@dataclass(frozen=True)
class Files:
    """Everything that a gate reads: two records, rules and the reference they name."""

    folder: Path

    def arguments(self, command: str, page: Path) -> list[str]:
        words = ["record.json", "--rules", "gate.toml", "--against", "previous.json"]
        inside = [word if word.startswith("--") else str(self.folder / word) for word in words]
        return [command, *inside, *(["-o", str(page)] if command == "report" else [])]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Files:
    folder = tmp_path_factory.mktemp("files")
    trusted = retrains(6)
    save_calibration(calibrate(trusted[:5]), folder / "gate.toml")
    save(trusted[5], folder / "record.json")
    save(trusted[4], folder / "previous.json")
    return Files(folder)


def fail_in_turn(files: Files, page: Path, command: str, operation: str, code: int) -> int:
    """Fail every call of one kind. Returns how many there were."""
    arguments = files.arguments(command, page)
    undisturbed = call(*arguments)
    assert undisturbed[0] == 0, undisturbed
    first = 1
    while True:
        disk = FaultyDisk(files.folder, operation=operation, first=first, fault=code)
        with disk.attached():
            ended, output = call(*arguments)
        if not disk.met:
            assert (ended, output) == undisturbed
            return first - 1
        first += 1
        if operation == "fstat" and (ended, output) == undisturbed:
            continue  # Python's own guess of how much to read, which it does without
        assert refused(ended, output), (operation, disk.met, output)
        assert os.strerror(code) in output
        assert disk.met[0] in output
        if command == "report":
            assert os.strerror(code) in page.read_text()


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES], ids=errno.errorcode.get)
@pytest.mark.parametrize("operation", ["open", "read"])
def test_files_that_cannot_be_read_are_named(files, tmp_path, operation, code):
    assert fail_in_turn(files, tmp_path / "page.html", "gate", operation, code) >= 6


@pytest.mark.parametrize("operation", ["open", "fstat"])
def test_pages_of_files_that_cannot_be_read_say_so(files, tmp_path, operation):
    assert fail_in_turn(files, tmp_path / "page.html", "report", operation, errno.EIO) >= 6


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
@pytest.mark.parametrize("operation", READING)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_read_may_fail(files, tmp_path, command, operation, code):
    n_calls = fail_in_turn(files, tmp_path / "page.html", command, operation, code)
    assert n_calls >= {"open": 6, "read": 6, "fstat": 6, "stat": 6}.get(operation, 0)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "missing", "large"])
@pytest.mark.parametrize("name", ["record.json", "record.npz", "previous.json", "gate.toml", "gate.reference.json"])
def test_files_that_are_no_regular_files_are_named(files, tmp_path, name, kind):
    """None of them is waited for."""
    for path in files.folder.iterdir():
        if path.name != name:
            (tmp_path / path.name).symlink_to(path)
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "large":
        with path.open("wb") as file:
            file.truncate(3 * 2**30)  # takes no room
    for command in COMMANDS:
        code, output = call(*Files(tmp_path).arguments(command, tmp_path / "page.html"))
        assert refused(code, output)
        assert name in output


def mutate_and_report(folder: Path, n_mutations: int, seed: int) -> None:
    """Change a record at random places and ask for its page, with and without a verdict."""
    rules = folder / "gate.toml"
    rules.write_text(
        f'[[rule]]\nmetric = "{P}density"\nmin = 0\nmax = 1\n[[rule]]\nmetric = "class_graph/density"\nmax = 1\n'
    )
    content, generator, n_refused = true_fields(), random.Random(seed), 0
    content["samples"], content["class_metrics"], content["metrics"] = content["samples"][8:12], {}, {}
    content["samples"] = [{**sample, "index": k} for k, sample in enumerate(content["samples"])]
    arrays = npz(weights=STACK[8:12])
    places = list(places_in(content))
    path, page, good = folder / "audit.json", folder / "page.html", folder / "good" / "audit.json"
    good.parent.mkdir()
    write(good, content, arrays)
    for k in range(n_mutations):
        place, strange = generator.choice(places), generator.choice(STRANGE)
        write(path, changed(content, place, strange), arrays)
        about = [path, "--against", good] if k % 3 == 1 else [good, "--against", path] if k % 3 == 2 else [path]
        code, output = call("report", *about, "-o", page, *(["--rules", rules] if k % 2 else []))
        text = page.read_text()
        if code == 2:
            assert refused(code, output), (place, strange, output)
            assert str(folder) in output
            assert "No verdict" in text or "must" in text
            assert "Passed" not in text
            n_refused += 1
        else:
            assert code == 0, (place, strange, output)
            assert is_same_kind(at(content, place), strange) or place == ("configuration", "target"), (place, strange)
    assert n_refused > n_mutations / 2


def test_pages_of_changed_records_say_so(tmp_path):
    mutate_and_report(tmp_path, 300, seed=5)


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(4))
def test_pages_of_thousands_of_changed_records_say_so(tmp_path, seed):
    mutate_and_report(tmp_path, 1500, seed=10 + seed)


def sealed_rules(folder: Path, rules: str, content: dict) -> None:
    """A reference with any content, and rules that name it by its checksum."""
    digest = checksum(json.loads(json.dumps(content)))
    (folder / "gate.reference.json").write_text(json.dumps({**content, "sha256": digest}))
    text = re.sub(r'reference_sha256 = "\w+"', f'reference_sha256 = "{digest}"', rules)
    (folder / "gate.toml").write_text(text)


@pytest.mark.parametrize("n_mutations", [300, pytest.param(5000, marks=[pytest.mark.exhaustive, pytest.mark.slow])])
def test_changed_references_are_refused_or_mean_the_same_kind(files, tmp_path, n_mutations):
    for path in files.folder.glob("*.[jn][sp][oz]*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    rules = (files.folder / "gate.toml").read_text()
    content = json.loads((files.folder / "gate.reference.json").read_text())
    del content["sha256"]
    generator, n_refused = random.Random(6), 0
    places = list(places_in(content))
    arguments = Files(tmp_path).arguments("gate", tmp_path / "page.html")
    for _ in range(n_mutations):
        place, strange = generator.choice(places), generator.choice(STRANGE)
        sealed_rules(tmp_path, rules, changed(content, place, strange))
        code, output = call(*arguments)
        if code == 2:
            assert refused(code, output), (place, strange, output)
            n_refused += 1
        else:
            assert code in (0, 1), (place, strange, output)
            assert is_same_kind(at(content, place), strange) or place[-1] == "target", (place, strange)
    assert n_refused > n_mutations / 2


@pytest.mark.parametrize("depth", [100, 900, 3000, 20_000])
def test_deeply_nested_references_are_refused(files, tmp_path, depth):
    for path in files.folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    head = json.dumps({"kind": "bivshap_lightning.Reference", "version": 1})[:-1]
    (tmp_path / "gate.reference.json").write_text(f'{head}, "samples": {"[" * depth}{"]" * depth}}}')
    code, output = call(*Files(tmp_path).arguments("gate", tmp_path / "page.html"))
    assert refused(code, output)
    assert "gate.reference.json" in output
