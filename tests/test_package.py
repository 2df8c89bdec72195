"""What an import costs, and which names the package promises."""

import configparser
import json
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import bivshap_lightning

ROOT = Path(__file__).resolve().parents[1]
PUBLIC_NAMES = {
    "AuditRecord",
    "BivariateShapley",
    "Blur",
    "ChannelMean",
    "Columns",
    "ConditionalSampler",
    "Explanation",
    "ExplanationGraph",
    "Game",
    "Grid",
    "NearestRows",
    "RedundancyGraph",
    "Segments",
    "Superpixels",
    "Tokens",
    "ZeroEmbedding",
    "__version__",
    "sufficient_set",
    "typical_row",
}
HEAVY_PACKAGES = {
    "captum",
    "lightning",
    "matplotlib",
    "pandas",
    "pytorch_lightning",
    "sklearn",
    "tensorboard",
    "torchmetrics",
}


def packages_loaded_by(statement: str) -> set[str]:
    """Top-level packages in `sys.modules` of a fresh interpreter after `statement`."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    return {name.partition(".")[0] for name in json.loads(run.stdout)}


def test_importing_the_package_loads_no_third_party_library():
    loaded = packages_loaded_by("import bivshap_lightning")
    assert "bivshap_lightning" in loaded
    assert not loaded & (HEAVY_PACKAGES | {"torch", "numpy", "scipy", "networkx", "sknetwork"})


def test_the_engine_loads_neither_lightning_nor_optional_libraries():
    loaded = packages_loaded_by("from bivshap_lightning import BivariateShapley, Game, ExplanationGraph")
    assert "torch" in loaded
    assert not loaded & HEAVY_PACKAGES


def test_graphs_need_no_torch():
    loaded = packages_loaded_by("from bivshap_lightning.graph import ExplanationGraph")
    assert "bivshap_lightning" in loaded
    assert not loaded & (HEAVY_PACKAGES | {"torch"})


def test_public_names_are_exactly_these():
    assert set(bivshap_lightning.__all__) == PUBLIC_NAMES
    assert len(bivshap_lightning.__all__) == len(PUBLIC_NAMES)
    assert set(dir(bivshap_lightning)) >= PUBLIC_NAMES


@pytest.mark.parametrize("name", sorted(PUBLIC_NAMES - {"__version__"}))
def test_every_public_name_resolves_to_a_documented_class_or_function(name):
    value = getattr(bivshap_lightning, name)
    assert callable(value)
    assert value.__name__ == name
    assert value.__doc__
    assert getattr(bivshap_lightning, name) is value


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="module 'bivshap_lightning' has no attribute 'Bivariate'"):
        bivshap_lightning.Bivariate  # noqa: B018


def test_installed_metadata_carries_the_version():
    assert version("bivshap-lightning") == bivshap_lightning.__version__


def test_the_package_is_marked_as_typed():
    assert (Path(bivshap_lightning.__file__).parent / "py.typed").is_file()


def test_the_source_distribution_holds_every_file_of_a_clone(tmp_path):
    """Built from the tracked files alone, so that nothing of this checkout's build products gets in."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    tracked = {name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).exists()}
    clone = tmp_path / "clone"
    for name in tracked:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name)
    build = "from setuptools import build_meta; print(build_meta.build_sdist('dist'))"
    run = subprocess.run([sys.executable, "-c", build], cwd=clone, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    (archive,) = (clone / "dist").iterdir()
    with tarfile.open(archive) as opened:
        packed = {member.name.partition("/")[2] for member in opened.getmembers() if member.isfile()}
    assert tracked - packed == set()


def declared_minimums() -> dict[tuple[str, str], Version]:
    """By name and marker, the least version that setup.cfg allows, extras included."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    lists = [settings["options"]["install_requires"], *settings["options.extras_require"].values()]
    found: dict[tuple[str, str], Version] = {}
    for requirement in (Requirement(line) for text in lists for line in text.splitlines() if line):
        if requirement.name != "bivshap-lightning":
            (least,) = [Version(part.version) for part in requirement.specifier if part.operator == ">="]
            key = canonicalize_name(requirement.name), str(requirement.marker or "")
            assert found.setdefault(key, least) == least
    return found


def test_the_oldest_versions_that_are_tested_are_the_declared_ones():
    lines = (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8").splitlines()
    tested: dict[tuple[str, str], Version] = {}
    for pin in (Requirement(line) for line in lines if not line.startswith("#")):
        (only,) = pin.specifier
        assert only.operator == "=="
        tested[canonicalize_name(pin.name), str(pin.marker or "")] = Version(only.version)
    declared = declared_minimums()
    torch = "torch", ""
    assert declared.pop(torch) <= tested.pop(torch)  # the only build at hand
    assert {key: tested.get(key) for key in declared} == declared
    assert {name for name, _ in tested.keys() - declared.keys()} == {"fsspec", "pyparsing"}
