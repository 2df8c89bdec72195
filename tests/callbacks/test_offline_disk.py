"""`bivshap audit` and the disk: one audit per folder, signals, and writes, renames and syncs that fail in turn."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest

from bivshap_lightning.audit.chunk_store import KIND as CHUNK
from bivshap_lightning.audit.chunk_store import ChunkStore
from bivshap_lightning.audit.lock import FolderInUseError, locked_folder
from bivshap_lightning.graph.storage import read_record
from tests.callbacks.projects import NAMES, QUICK
from tests.callbacks.test_offline_audit import THOROUGH, finish, same_record, start
from tests.faults import READING, WRITING, FaultyDisk

# Two chunks of two samples, so that one can be finished when the other is not.
CHUNKED = ["--checkpoint", "model.ckpt", *NAMES, *QUICK, "--audit.method=sampling", "--chunk-size=2"]
N_CHUNKS = 2
WRITTEN = ["audit.json", "audit.npz", "report.html", "tensorboard"]
FAULTS = [(code, False) for code in (errno.ENOSPC, errno.EIO, errno.EINTR, errno.EROFS)] + [(errno.ENOSPC, True)]
"""Error codes, and whether the disk stays like that; a disk that is full does."""
ROOT = Path(__file__).resolve().parents[2]


def test_a_second_audit_names_the_process_that_uses_the_folder(project, call, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    with locked_folder(folder):
        code, out, err = call(*CHUNKED, "-o", folder)
    assert (code, out) == (2, "")
    told = f"no other audit writes to, got {re.escape(str(folder))}, which process {os.getpid()} on .+ since 2.+ uses"
    assert re.search(told, err)
    assert not (folder / "audit.json").exists()
    assert call(*CHUNKED, "-o", folder)[0] == 0


def test_a_lock_does_not_outlive_its_process(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from bivshap_lightning.audit.lock import locked_folder\n"
        "with locked_folder(Path(sys.argv[1])):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(FolderInUseError, match=f"which process {holder.pid} on"), locked_folder(tmp_path):
        pass
    holder.kill()
    holder.communicate()
    assert json.loads((tmp_path / ".audit.lock.json").read_text())["process"] == holder.pid  # it could not tidy up
    with locked_folder(tmp_path):
        assert json.loads((tmp_path / ".audit.lock.json").read_text())["process"] == os.getpid()
    (tmp_path / ".audit.lock.json").write_text("{nonsense")
    with (
        locked_folder(tmp_path),
        pytest.raises(FolderInUseError, match="which process"),
        locked_folder(tmp_path),
    ):
        pass


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_sigterm_stops_an_audit_at_once_and_it_can_be_resumed(project, tmp_path):
    arguments = [*NAMES, *THOROUGH, "-o", "terminated"]
    kept = project / "terminated" / "unfinished"
    process = start(project, *arguments)
    deadline = time.monotonic() + 150
    while not list(kept.glob("*.npz")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    code, out, err = finish(process)
    assert (code, out) == (143, "")
    assert "interrupted; run the same command again to resume" in err
    assert list(kept.glob("*.npz"))
    assert not (project / "terminated" / "audit.json").exists()
    assert finish(start(project, *arguments))[0] == 0
    assert finish(start(project, *arguments[:-1], "undisturbed"))[0] == 0
    same_record(project / "terminated", project / "undisturbed")


@pytest.fixture(scope="module")
def undisturbed(project, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert finish(start(project, *CHUNKED[2:], "-o", folder))[0] == 0
    return folder


def resume(call, folder: Path, undisturbed: Path) -> None:
    """Run the same command again: it computes the unfinished chunks only, and finds what an undisturbed audit finds."""
    found = []
    for path in (folder / "unfinished").glob("*.npz"):
        read_record(path, CHUNK, ("digest",))  # written whole or not at all
        found.append(path.name)
    if (folder / "audit.json").exists():  # only something later is missing
        same_record(folder, undisturbed)
    saved: list[str] = []
    save = ChunkStore.save

    def counted(store, chunk, part) -> None:
        saved.append(store.name_of(chunk))
        save(store, chunk, part)

    with mock.patch.object(ChunkStore, "save", counted):
        code, _, err = call(*CHUNKED, "-o", folder)
    assert code == 0, err
    assert sorted({*found, *saved}) == sorted([*found, *saved])  # none twice
    assert len(found) + len(saved) == N_CHUNKS
    same_record(folder, undisturbed)
    assert not list(folder.rglob("*.tmp"))
    assert sorted(p.name for p in folder.iterdir() if p.name != ".audit.lock") == WRITTEN


def fail_and_resume(call, folder: Path, undisturbed: Path, **fault) -> bool:
    """Whether the fault was met; whatever it was, the audit says so, keeps finished chunks, and can be resumed."""
    disk = FaultyDisk(folder, **fault)
    with disk.attached():
        code, out, err = call(*CHUNKED, "-o", folder)
    assert code in ((0, 2) if disk.met else (0,)), (disk.met, err)
    assert "Traceback" not in err
    if code == 0:  # it did no harm
        same_record(folder, undisturbed)
    else:
        reasons = [os.strerror(fault["fault"]), "no record or"]
        if (
            fault["operation"] == "stat"
        ):  # TensorBoard makes its folder by `os.makedirs`, which takes that for no folder
            reasons += [r"tensorboard/? \(File exists\)", r"\(Missing folder: .*tensorboard"]
        assert re.search(rf"^bivshap: .* got .*({'|'.join(reasons)})", err), err
        assert (out, err.count("\n")) == ("", 1), err
        assert str(folder) in err
        resume(call, folder, undisturbed)
    return bool(disk.met)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        ("write", 1, errno.ENOSPC, True),
        ("write", 2, errno.EIO, False),
        ("fsync", 1, errno.EIO, False),
        ("fsync", 3, errno.ENOSPC, True),
        ("replace", 2, errno.ENOSPC, False),
        ("replace", 3, errno.EACCES, True),
        ("write", 3, errno.EINTR, False),
        ("open", 1, errno.EROFS, True),
        ("unlink", 1, errno.EROFS, True),
        ("mkdir", 2, errno.ENOSPC, True),
        ("read", 1, errno.EIO, True),
    ],
    ids=lambda fault: f"{fault[0]}-{fault[1]}-{errno.errorcode[fault[2]]}{'-lasting' if fault[3] else ''}",
)
def test_a_failing_disk_loses_no_finished_chunk(project, call, tmp_path, undisturbed, fault):
    operation, first, code, lasting = fault
    folder = tmp_path / "out"
    assert fail_and_resume(call, folder, undisturbed, operation=operation, first=first, fault=code, lasting=lasting)


@pytest.mark.exhaustive
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    "fault", FAULTS, ids=lambda fault: f"{errno.errorcode[fault[0]]}{'-lasting' if fault[1] else ''}"
)
@pytest.mark.parametrize("operation", sorted({*WRITING, *READING}))
def test_every_call_may_fail(project, call, tmp_path, undisturbed, operation, fault):
    """Of the audit itself; TensorBoard's own files have a test below."""
    first, (code, lasting) = 1, fault
    while fail_and_resume(call, tmp_path / str(first), undisturbed, operation=operation, first=first, fault=code,
                          lasting=lasting, ignored="tfevents"):  # fmt: skip
        first += 1
    assert first > 1 or operation in ("scandir", "listdir")


@pytest.mark.slow
@pytest.mark.parametrize("code", [errno.ENOSPC, pytest.param(errno.EIO, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("operation", ["open", "write"])
def test_tensorboard_without_room_ends_the_audit_without_traceback(
    project, call, tmp_path, undisturbed, operation, code, capfd
):
    class OfEvents(FaultyDisk):
        def _path(self, file):
            path = super()._path(file)
            return path if path and "tfevents" in path else None

    for first in (1, 2, 10):
        folder = tmp_path / str(first)
        with mock.patch(f"{__name__}.FaultyDisk", OfEvents):
            assert fail_and_resume(
                call, folder, undisturbed, operation=operation, first=first, fault=code, lasting=True
            )
    assert "Traceback" not in "".join(capfd.readouterr())


def test_everything_is_on_the_disk_before_it_has_its_name(project, call, tmp_path):
    """Data, then their name: the file is synced before it is renamed, and its folder after that."""
    disk = FaultyDisk(tmp_path)
    with disk.attached():
        assert call(*CHUNKED, "-o", tmp_path / "out")[0] == 0
    renamed = [(place, path) for place, (name, path) in enumerate(disk.calls) if name == "replace"]
    assert len(renamed) == N_CHUNKS + 3  # arrays, record and page
    for place, path in renamed:
        before = [name for name, about in disk.calls[:place] if about == path]
        assert before[-2:] == ["write", "fsync"]
        folder = str(Path(path).parent)
        assert disk.calls[place + 1 : place + 3] == [("open", folder), ("fsync", folder)]


# The first process has everything imported; each copy of it is killed in another call.
KILLED = """
import os, sys
from pathlib import Path
from bivshap_lightning import cli
from bivshap_lightning.callbacks import offline
from tests.faults import FaultyDisk
operation, root, *points = sys.argv[1:sys.argv.index("--")]
for first in map(int, points) if points else range(1, 1000):
    folder = Path(root, str(first))
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # exit codes alone are printed
        disk = FaultyDisk(folder, operation=operation, first=first, fault=lambda: os._exit(99), ignored="tfevents")
        with disk.attached():
            code = cli.main([*sys.argv[sys.argv.index("--") + 1:], "-o", str(folder)])
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(first, code, flush=True)
    if code != 99:
        break
"""


def killed(project: Path, root: Path, operation: str, *points: int) -> dict[int, int]:
    """Exit codes by number of the call that an audit was killed in; without numbers all calls, and one that is not."""
    command = [sys.executable, "-c", KILLED, operation, root, *points, "--", "audit", *CHUNKED]
    paths = os.pathsep.join([str(ROOT), str(project), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [str(word) for word in command], cwd=project, env=environment, capture_output=True, text=True, timeout=900,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return {int(first): int(code) for first, code in map(str.split, run.stdout.splitlines())}


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["replace", "fsync"])
def test_an_audit_that_is_killed_while_it_writes_can_be_resumed(project, call, tmp_path, undisturbed, operation):
    points = (1, 2, 3, 5)
    assert killed(project, tmp_path, operation, *points) == dict.fromkeys(points, 99)
    for first in points:
        resume(call, tmp_path / str(first), undisturbed)


@pytest.mark.exhaustive
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("operation", sorted({*WRITING, "read"}))
def test_an_audit_may_be_killed_in_every_call(project, call, tmp_path, undisturbed, operation):
    codes = killed(project, tmp_path, operation)
    *deadly, last = codes
    assert [codes[first] for first in deadly] == [99] * len(deadly)
    assert codes[last] == 0
    assert len(deadly) > 3
    for first in deadly:
        resume(call, tmp_path / str(first), undisturbed)


@pytest.mark.slow
def test_a_folder_that_vanishes_is_missed(project, call, tmp_path, undisturbed):
    """After the first chunk, as when a network drive is gone; what was finished elsewhere is still there."""
    folder, away, save = tmp_path / "out", tmp_path / "away", ChunkStore.save

    def vanish(store, chunk, part) -> None:
        save(store, chunk, part)
        if not away.exists():
            folder.rename(away)

    with mock.patch.object(ChunkStore, "save", vanish):
        code, out, err = call(*CHUNKED, "-o", folder)
    assert (code, out) == (2, "")
    assert re.search(r"^bivshap: a finished chunk must be written to .*, got No such file or directory\. Chunks", err)
    assert not folder.exists()
    away.rename(folder)
    resume(call, folder, undisturbed)


def test_a_folder_that_cannot_be_written_is_refused(project, call, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = call(*CHUNKED, "-o", tmp_path / "file" / "out")
    assert code == 2
    assert "`--output` must be a folder to write to, got" in err


def test_other_files_among_the_finished_chunks_are_ignored(project, call, tmp_path, undisturbed):
    kept = tmp_path / "out" / "unfinished"
    (kept / "folder.npz").mkdir(parents=True)
    (kept / "notes.txt").write_text("mine")
    (kept / ("0" * 32 + ".npz")).write_bytes(b"no archive")
    assert call(*CHUNKED, "-o", tmp_path / "out")[0] == 0
    same_record(tmp_path / "out", undisturbed)
    assert (kept / "notes.txt").read_text() == "mine"
    assert (kept / "folder.npz").is_dir()


def test_a_chunk_is_reused_only_if_its_digest_matches(project, call, tmp_path, undisturbed, monkeypatch):
    """The files of two chunks change names: both are computed again."""
    saved = []
    monkeypatch.setattr(ChunkStore, "remove", lambda store: saved.append(store))
    assert call(*CHUNKED, "-o", tmp_path / "out")[0] == 0
    first, second = sorted((tmp_path / "out" / "unfinished").glob("*.npz"))
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    assert call(*CHUNKED, "-o", tmp_path / "out")[0] == 0
    same_record(tmp_path / "out", undisturbed)
