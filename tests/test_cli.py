"""The command line: every exit code in a real process; in this one, that nothing damaged ever passes."""

import contextlib
import io
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import tomllib
from hypothesis import assume, given
from hypothesis import strategies as st

from bivshap_lightning import __version__, cli
from bivshap_lightning.audit.record_files import checksum
from tests.records import ARRAYS, P, npz, sealed, true_fields, write

ROOT = Path(__file__).resolve().parents[1]
LENIENT = f'[[rule]]\nmetric = "{P}density"\nmin = 0\nmax = 1\n[[rule]]\nmetric = "class_graph/density"\nmax = 1\n'
STRICT = f'[[rule]]\nmetric = "{P}density"\nmax = 0.01\n'
CHANGE = f'[[rule]]\nmetric = "{P}density"\nmax_absolute_change = 0.5\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("gate")
    write(folder / "record.json", true_fields())
    for name, text in {"lenient": LENIENT, "strict": STRICT, "change": CHANGE}.items():
        (folder / f"{name}.toml").write_text(text)
    return folder


def run(*arguments, **kwargs) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bivshap_lightning.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT, **kwargs)


def call(*arguments) -> tuple[int, str]:
    """The exit code and all output of `main` in this process."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code = cli.main([str(a) for a in arguments])
        except SystemExit as stop:
            code = stop.code
    return code, out.getvalue()


def refused(code: int, output: str) -> bool:
    return code == 2 and output.startswith("bivshap: ") and "Traceback" not in output and len(output) > 20


def test_pass_is_0(folder):
    done = run("gate", folder / "record.json", "--rules", folder / "lenient.toml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("gate passed: 2 passed, 0 failed, 0 warned; 20 samples\n")


def test_fail_is_1_and_writes_all_reports(folder, tmp_path):
    reports = [tmp_path / name for name in ("out.xml", "out.json", "out.md")]
    options = [a for pair in zip(("--junit", "--json", "--markdown"), reports, strict=True) for a in pair]
    done = run("gate", folder / "record.json", "--rules", folder / "strict.toml", *options)
    assert (done.returncode, done.stderr) == (1, "")
    assert "group: a = b (10 of 20 samples)" in done.stdout
    assert ET.parse(reports[0]).find("testsuite").get("failures") == "1"
    assert json.loads(reports[1].read_text())["passed"] is False
    assert reports[2].read_text().startswith("### bivshap gate: failed")


def test_usage_and_missing_records_are_2(folder):
    assert run("gate").returncode == 2
    assert run().returncode == 2
    done = run("gate", folder / "none.json", "--rules", folder / "lenient.toml")
    assert refused(done.returncode, done.stderr)
    assert "none.json" in done.stderr
    assert done.stdout == ""


def test_internal_errors_are_3(folder):
    code = (
        "import bivshap_lightning.gate as gate, bivshap_lightning.cli as cli\n"
        "def broken(*_): raise ZeroDivisionError('oh')\n"
        "gate.judge = broken\n"
        f"raise SystemExit(cli.main(['gate', 'r.json', '--rules', {str(folder / 'lenient.toml')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert done.stderr == "bivshap: internal error: ZeroDivisionError: oh\n"


def test_version_and_help():
    assert run("--version").stdout == f"bivshap-lightning {__version__}\n"
    for arguments in (["--help"], ["gate", "--help"], ["tensorboard", "--help"]):
        code, output = call(*arguments)
        assert code == 0
        assert "exit codes: 0 pass, 1 fail, 2 usage" in " ".join(output.split())


def test_gating_imports_neither_torch_nor_matplotlib(folder):
    arguments = ["gate", str(folder / "record.json"), "--rules", str(folder / "lenient.toml")]
    code = (
        f"import sys; from bivshap_lightning import cli; code = cli.main({arguments!r})\n"
        "print(sorted({'torch', 'matplotlib', 'pytorch_lightning', 'captum', 'tensorboard'} & set(sys.modules)), code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines()[-1] == "[] 0"


def test_names_that_the_terminal_cannot_show(folder, tmp_path):
    text = json.dumps(true_fields()).replace('"a"', '"\\ud800日本\\u001b[31m"')
    write(tmp_path / "record.json", json.loads(text))
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = run("gate", tmp_path / "record.json", "--rules", folder / "strict.toml", env=environment)
    assert (done.returncode, done.stderr) == (1, "")
    assert "\x1b" not in done.stdout


def test_a_reader_that_leaves_early_does_not_change_the_verdict(folder):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "bivshap_lightning.cli", "gate", str(folder / "record.json")]
    done = subprocess.run(
        [*command, "--rules", str(folder / "strict.toml")],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk without room")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words",
    [
        ["gate", "record.json", "--rules", "lenient.toml"],
        ["gate", "record.json", "--rules", "strict.toml", "--json"],
        ["gate", "none.json", "--rules", "strict.toml", "--json"],
        ["report", "record.json", "-o", "page.html"],
        ["--version", "--json"],
        ["gate", "--json"],
        ["gate", "--help"],
    ],
    ids=" ".join,
)
def test_output_without_room_is_2(folder, words, unbuffered):
    """What cannot be told is no pass; and an error that cannot be told either is still one."""
    arguments = [str(folder / word) if Path(word).suffix else word for word in words]
    command = [sys.executable, "-m", "bivshap_lightning.cli", *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False, cwd=ROOT, env=environment
        )
        silent = subprocess.run(command, stdout=full, stderr=full, timeout=60, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 2
    assert done.stderr == "bivshap: standard output must be writable, got No space left on device.\n"
    assert silent.returncode == 2


def test_comparisons(folder, tmp_path):
    new = folder / "record.json"
    assert call("gate", new, "--rules", folder / "change.toml", "--against", new)[0] == 0
    code, output = call("gate", new, "--rules", folder / "change.toml")
    assert refused(code, output)
    assert "needs a previous record" in output
    write(tmp_path / "other.json", true_fields(removal="mean"))
    code, output = call("gate", new, "--rules", folder / "change.toml", "--against", tmp_path / "other.json")
    assert refused(code, output)
    assert "different removal" in output


def test_errors_replace_the_reports_of_earlier_runs(folder, tmp_path):
    junit, verdict = tmp_path / "out.xml", tmp_path / "out.json"
    for name, code in (("record.json", 0), ("none.json", 2)):
        options = ["--rules", folder / "lenient.toml", "--junit", junit, "--json", verdict]
        assert call("gate", folder / name, *options)[0] == code
    assert ET.parse(junit).find("testsuite").get("errors") == "1"
    assert json.loads(verdict.read_text())["passed"] is False


def test_a_report_that_cannot_be_written_is_no_pass(folder, tmp_path):
    options = ["--rules", folder / "lenient.toml", "--junit", tmp_path / "no" / "out.xml"]
    code, output = call("gate", folder / "record.json", *options)
    assert refused(code, output)
    assert "`--junit` must be a writable file" in output


def test_a_folder_is_no_record_but_its_records_are_named(folder):
    code, output = call("gate", folder, "--rules", folder / "lenient.toml")
    assert refused(code, output)
    assert f"got {folder} (a folder; records in it: " in output
    (folder / "sub.json").mkdir(exist_ok=True)
    code, output = call("gate", folder / "sub.json", "--rules", folder / "lenient.toml")
    assert refused(code, output)
    assert "a folder; records in it: none" in output


def test_the_arrays_are_not_the_record(folder):
    code, output = call("gate", folder / "record.npz", "--rules", folder / "lenient.toml")
    assert refused(code, output)
    assert f"Pass {folder / 'record.json'}." in output


def judge_text(folder: Path, content: bytes, *, rules: bool = False) -> tuple[int, str]:
    damaged = folder / ("damaged.toml" if rules else "damaged.json")
    damaged.write_bytes(content)
    if rules:
        return call("gate", folder / "record.json", "--rules", damaged)
    return call("gate", damaged, "--rules", folder / "lenient.toml")


RECORD = sealed(true_fields())


@given(st.integers(0, len(RECORD) - 1))
def test_truncated_records_are_refused(folder, n):
    assert refused(*judge_text(folder, RECORD[:n]))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(folder, content):
    assert refused(*judge_text(folder, content))
    code, output = judge_text(folder, content, rules=True)
    assert refused(code, output)


@given(st.integers(0, len(RECORD) - 1), st.integers(0, 255))
def test_one_wrong_byte_is_seen(folder, place, byte):
    """Unless the bytes still mean the same, such as another kind of white space: then the verdict is the same too."""
    assume(RECORD[place] != byte)
    damaged = RECORD[:place] + bytes([byte]) + RECORD[place + 1 :]
    code, output = judge_text(folder, damaged)
    if not refused(code, output):
        assert (code, json.loads(damaged)) == (0, json.loads(RECORD)), output


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"value": 1.0', b'"value": 0.9'), (b'"gamma": 1e-05', b'"gamma": 2e-05'), (b'"epoch": 3', b'"epoch": 4'),
     (b'"c", "d"]', b'"d", "c"]'), (b'"step"', b'"stop"')],
)  # fmt: skip
def test_a_changed_number_or_name_is_seen(folder, old, new):
    """All of these are records that nothing else could tell from a true one."""
    assert old in RECORD
    code, output = judge_text(folder, RECORD.replace(old, new, 1))
    assert refused(code, output)
    assert "differs from its checksum" in output
    assert "damaged.json" in output


def test_white_space_and_the_order_of_keys_mean_nothing(folder):
    fields = json.loads(RECORD)
    again = json.dumps(dict(reversed(fields.items())), indent=3).encode()
    assert judge_text(folder, again) == judge_text(folder, RECORD)


@given(st.integers(0, len(ARRAYS) - 1), st.integers(1, 255))
def test_one_wrong_byte_of_the_arrays_is_seen(folder, place, change):
    pair = folder / "pair"
    pair.mkdir(exist_ok=True)
    write(pair / "record.json", true_fields())
    damaged = ARRAYS[:place] + bytes([ARRAYS[place] ^ change]) + ARRAYS[place + 1 :]
    (pair / "record.npz").write_bytes(damaged)
    for command in (["gate", pair / "record.json", "--rules", folder / "lenient.toml"],
                    ["gate", folder / "record.json", "--rules", folder / "lenient.toml", "--against",
                     pair / "record.json"]):  # fmt: skip
        code, output = call(*command)
        assert refused(code, output)
        assert "record.npz" in output


def test_arrays_of_another_record_and_none_are_refused(folder, tmp_path):
    path = write(tmp_path / "audit.json", true_fields())
    rules = ["--rules", folder / "lenient.toml"]
    (tmp_path / "record.npz").rename(tmp_path / "audit.npz")  # both renamed alike
    assert call("gate", path, *rules)[0] == 0
    (tmp_path / "audit.npz").write_bytes(npz(weights=[1.0]))
    code, output = call("gate", path, *rules)
    assert refused(code, output)
    assert "got others or damaged ones in" in output
    (tmp_path / "audit.npz").unlink()
    code, output = call("gate", path, *rules)
    assert refused(code, output)
    assert "Keep JSON and NPZ together" in output


SEALED = f'sha256 = "{checksum({"rule": tomllib.loads(LENIENT)["rule"]})}"\n{LENIENT}'.encode()


def rules_of(text):
    """What a rules file means, or None if it is no TOML; the seal aside."""
    try:
        return tomllib.loads(text.decode()).get("rule")
    except ValueError:
        return None


@given(st.integers(0, len(SEALED) - 1), st.integers(0, 255))
def test_a_sealed_rules_file_shows_every_damage(folder, place, change):
    """One byte changed, or everything from it on missing: the same meaning and verdict, or none at all."""
    assert judge_text(folder, SEALED, rules=True)[0] == 0
    changed = SEALED[:place] + bytes([SEALED[place] ^ change]) + SEALED[place + 1 :]
    for damaged in (changed, SEALED[:place]):
        code, output = judge_text(folder, damaged, rules=True)
        assert refused(code, output) or (code == 0 and rules_of(damaged) == rules_of(SEALED))


@given(st.integers(0, len(LENIENT) - 1))
def test_truncated_rules_never_break_the_gate(folder, n):
    """TOML has no end mark: what is left may be a shorter set of rules, unless the file is sealed."""
    code, output = judge_text(folder, LENIENT[:n].encode(), rules=True)
    assert "Traceback" not in output
    assert code in (0, 1) or refused(code, output)
    if LENIENT[:n].count("[[rule]]") == 0:
        assert code == 2


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"version": 4}, "must have format version 3, got 4"),
        ({"version": 2}, "Audit again"),
        ({"version": True}, "must have format version 3, got True"),
        ({"kind": "bivshap_lightning.Graph"}, "must be of kind"),
        ({"samples": []}, "hold at least one sample"),
        ({"samples": true_fields()["samples"][:1] * 2}, "samples must be different, with one index each, got [0]"),
        ({"metrics": {f"{P}density": {"value": 1.5, "standard_error": 0}}}, "lie in [0, 1]"),
        ({"metrics": {f"{P}density": {"value": 0.1, "standard_error": -1}}}, "0 or more"),
    ],
)
def test_records_that_mean_nothing_here(folder, change, match):
    code, output = judge_text(folder, sealed(true_fields() | change))
    assert refused(code, output)
    assert match in output


def test_deeply_nested_files(folder):
    assert refused(*judge_text(folder, b"[" * 100_000))
    assert refused(*judge_text(folder, b"a = " + b"[" * 100_000, rules=True))


def json_of(*arguments) -> tuple[int, dict]:
    """The exit code and the one object on standard output; nothing may stand on standard error."""
    done = run(*arguments)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_verdicts_as_json_on_standard_output(folder):
    for option in (["--json"], ["--json", "-"], ["--json=-"]):
        code, said = json_of("gate", folder / "record.json", "--rules", folder / "strict.toml", *option)
        assert (code, said["passed"], said["error"]) == (1, False, None)
        assert said["results"][0]["rule"]["metric"] == f"{P}density"
    code, said = json_of("gate", folder / "none.json", "--rules", folder / "strict.toml", "--json")
    assert (code, said["passed"]) == (2, False)
    assert "No such file" in said["error"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["gate", "--json"], "required: RECORD, --rules"),
        (["report", "--json"], "required: RECORD, -o"),
        (["tensorboard", "--json", "none"], "LOGDIR must be a folder, got none"),
        (["report", "none.json", "-o", "/none/page.html", "--json"], "`--output` must be a writable file"),
        (["--json"], "a COMMAND is required"),
        (["gate", "none.json", "--rules", "none.toml", "--junit", "/none/x.xml", "--json"], "`--junit` must be a writ"),
    ],
)
def test_errors_as_json(arguments, error):
    code, said = json_of(*arguments)
    assert code == 2
    assert list(said) == ["error"]
    assert error in said["error"]


def test_usage_errors_stay_on_standard_error_when_json_goes_to_a_file(tmp_path):
    done = run("gate", "--json", tmp_path / "out.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "required: RECORD, --rules" in done.stderr
    assert "usage: bivshap gate" in done.stderr


def test_other_commands_as_json(folder, tmp_path):
    assert json_of("--version", "--json") == (0, {"version": __version__})
    code, said = json_of("tensorboard", tmp_path, "--json")
    assert code == 0
    assert said["command"][-2:] == [str(tmp_path), "--samples_per_plugin=images=1000,bivshap=1000"]


def test_tensorboard_is_started_with_the_flags_it_needs(monkeypatch, tmp_path):
    commands = []
    monkeypatch.setattr(cli.subprocess, "call", lambda command: commands.append(command) or 0)
    assert call("tensorboard", tmp_path) == (0, "")
    (command,) = commands
    assert command[1:5] == ["-m", "tensorboard.main", "--logdir", str(tmp_path)]
    assert command[5:] == ["--samples_per_plugin=images=1000,bivshap=1000"]
    assert call("tensorboard", tmp_path, "--port", "7007") == (0, "")
    assert commands[1] == [*command, "--port", "7007"]
    assert refused(*call("tensorboard", tmp_path / "none"))


def test_leaving_tensorboard_is_no_error(monkeypatch, tmp_path):
    def leave(command):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.subprocess, "call", leave)
    assert call("tensorboard", tmp_path) == (0, "")
