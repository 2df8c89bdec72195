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

import pytest

from bivshap_lightning.audit.chunk_store import ChunkStore
from bivshap_lightning.audit.lock import FolderInUseError, locked_folder
from bivshap_lightning.audit.record import AuditRecord
from tests.callbacks.projects import NAMES, QUICK
from tests.callbacks.test_offline_audit import THOROUGH, finish, same_record, start

# Two chunks of two samples, so that one can be finished when the other is not.
CHUNKED = ["--checkpoint", "model.ckpt", *NAMES, *QUICK, "--audit.method=sampling", "--chunk-size=2"]
OPERATIONS = ("open", "write", "fsync", "replace")


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


class Fault:
    """Makes the n-th call of one function of `os` on a file below a folder fail."""

    def __init__(self, monkeypatch, folder: Path, operation: str, number: int, code: int) -> None:
        self.seen, self.calls = 0, []
        real, opened, real_open = getattr(os, operation), {}, os.open

        def is_ours(first) -> bool:
            return str(opened.get(first, first)).startswith(str(folder))

        def faulty(first, *rest, **options):
            if is_ours(first):
                self.seen += 1
                if self.seen == number:
                    raise OSError(code, os.strerror(code), str(first))
            found = real(first, *rest, **options)
            if operation == "open":
                opened[found] = first
            return found

        def watched_open(path, *rest, **options):
            descriptor = real_open(path, *rest, **options)
            opened[descriptor] = path
            return descriptor

        monkeypatch.setattr(os, "open", watched_open)
        monkeypatch.setattr(os, operation, faulty)


@pytest.fixture(scope="module")
def undisturbed(project, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert finish(start(project, *CHUNKED[2:], "-o", folder))[0] == 0
    return folder


def fail_and_resume(call, monkeypatch, folder: Path, undisturbed: Path, fault: tuple[str, int, int]) -> bool:
    """Whether the fault was met; whatever it was, the audit says so and can be resumed to the same record."""
    operation, number, code = fault
    with monkeypatch.context() as patched:
        met = Fault(patched, folder, operation, number, code)
        exit_code, out, err = call(*CHUNKED, "-o", folder)
        was_met = met.seen >= number
    assert exit_code in ((0, 2) if was_met else (0,)), err
    if exit_code == 2:
        assert os.strerror(code) in err
        assert err.count("\n") == 1
        assert out == ""
        if (folder / "audit.json").exists():  # only the page is missing
            AuditRecord.load(folder / "audit.json")
    assert call(*CHUNKED, "-o", folder)[0] == 0
    same_record(folder, undisturbed)
    assert not list(folder.rglob("*.tmp"))
    return was_met


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        ("write", 1, errno.ENOSPC),
        ("write", 2, errno.EIO),
        ("fsync", 1, errno.EIO),
        ("replace", 2, errno.ENOSPC),
        ("replace", 3, errno.EACCES),
        ("write", 3, errno.EINTR),
    ],
    ids=lambda fault: f"{fault[0]}-{fault[1]}-{errno.errorcode[fault[2]]}",
)
def test_a_failing_disk_loses_no_finished_chunk(project, call, monkeypatch, tmp_path, undisturbed, fault):
    assert fail_and_resume(call, monkeypatch, tmp_path / "out", undisturbed, fault)


@pytest.mark.exhaustive
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EINTR, errno.EROFS], ids=errno.errorcode.get)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_write_rename_and_sync_may_fail(project, call, monkeypatch, tmp_path, undisturbed, operation, code):
    number = 1
    while fail_and_resume(call, monkeypatch, tmp_path / str(number), undisturbed, (operation, number, code)):
        number += 1
    assert number > 3


KILLED = """
import os, sys
from bivshap_lightning import cli
operation, number, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
real, seen = getattr(os, operation), 0
def deadly(*arguments, **options):
    global seen
    seen += 1
    if seen == number:
        os._exit(99)
    return real(*arguments, **options)
setattr(os, operation, deadly)
sys.exit(cli.main(sys.argv[4:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "number"), [("replace", 1), ("replace", 2), ("fsync", 5)])
def test_no_incomplete_record_after_a_crash_during_a_write(project, call, tmp_path, undisturbed, operation, number):
    folder = tmp_path / "out"
    command = [sys.executable, "-c", KILLED, operation, str(number), str(folder), "audit", *CHUNKED, "-o", str(folder)]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=200, check=False)
    assert run.returncode == 99, run.stderr
    assert not (folder / "audit.json").exists()
    assert call(*CHUNKED, "-o", folder)[0] == 0
    same_record(folder, undisturbed)


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
