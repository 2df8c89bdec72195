"""The page of an audit: what it says, that data stays text, and how it behaves in a real browser."""

import base64
import copy
import hashlib
import html
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from bivshap_lightning.audit.json_fields import encode
from bivshap_lightning.audit.record import AuditRecord, ClassMetrics, Estimate, GraphSummary, Run
from bivshap_lightning.audit.record_parts import strongest_pairs
from bivshap_lightning.gate import GateError, Rule, judge, judging
from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.graph.averaging import MAX_NAMES_OF_CLASS, mean_of_same_players
from bivshap_lightning.graph.substitution import mean_substitution
from bivshap_lightning.views.html import drawings, explorer, render_failure, render_page
from bivshap_lightning.views.html.content import PageContent
from tests.browser import chromium
from tests.records import GAMMA, C, P, fields, npz, write
from tests.test_cli import call, refused

HOSTILE = ["<script>alert(1)</script>", '" onload="x', "&lt;b&gt;", "http://evil.example/x.png"]
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def or_game(names, seed: int, n_players: int = 4) -> ExplanationGraph:
    """Players 0 and 1 make each other redundant; all else is arbitrary."""
    generator = np.random.default_rng(seed)
    weights = generator.uniform(0.05, 0.9, (n_players, n_players))
    weights[1, 2:], weights[2:, 1] = weights[0, 2:], weights[2:, 0]
    weights[0, 1] = weights[1, 0] = 0
    np.fill_diagonal(weights, 0)
    shapley = generator.uniform(0.1, 1, n_players)
    shapley[1] = shapley[0]
    return ExplanationGraph(weights, names=names, shapley=shapley)


CURVES = {
    name: {"masked_fraction": [0.0, 0.5, 1.0], "accuracy": [1.0, y, 0.2], "standard_error": [0.0, 0.05, 0.1]}
    for name, y in (("ours", 0.9), ("kernel_shap", 0.8))
}
METRICS = {
    f"{P}accuracy_with_representatives": (1.0, 0.0),
    "bivshap/post_hoc_accuracy/ours": (0.8, 0.05),
    "bivshap/post_hoc_accuracy/kernel_shap": (0.7, 0.06),
    "mine <i>": (3.25, 0.125),
}


def content_of(graphs, labels, targets=None, **changes) -> tuple[dict, dict]:
    """The fields and arrays of a record of these graphs."""
    targets = labels if targets is None else targets
    classes = {}
    for name in dict.fromkeys(labels):
        members = [g for g, label in zip(graphs, labels, strict=True) if label == name]
        if len({g.names for g in members}) == 1:
            parts = mean_substitution(members, gammas=[GAMMA] * len(members), max_players=MAX_NAMES_OF_CLASS)
            classes[name] = encode(
                replace(GraphSummary.of(mean_of_same_players(members), GAMMA), **strongest_pairs(parts))
            )
    samples = [(label, encode(GraphSummary.of(g, GAMMA))) for g, label in zip(graphs, labels, strict=True)]
    found = fields(samples, METRICS, classes) | {"curves": copy.deepcopy(CURVES), "versions": {"torch": "2.99.1"}}
    found["cost"] |= {"seconds": 1.5, "forwards": 7e3}
    for sample, target, g in zip(found["samples"], targets, graphs, strict=True):
        sample |= {"target": target, "gain": float(g.shapley.sum())}
    parts = {name: [getattr(g, name).astype(np.float32) for g in graphs]
             for name in ("weights", "standard_error", "shapley")}  # fmt: skip
    if len({g.n_players for g in graphs}) == 1:
        arrays = {name: np.stack(rows) for name, rows in parts.items()}
    else:
        arrays = {f"{name}_{k}": row for name, rows in parts.items() for k, row in enumerate(rows)}
    return found | changes, arrays


def save(path: Path, graphs, labels, targets=None, **changes) -> Path:
    """A record of these graphs as the callback would write it."""
    found, arrays = content_of(graphs, labels, targets, **changes)
    return replace(AuditRecord.from_fields(found), arrays=arrays).save(path)


def judged(path, rules, **kwargs) -> str:
    return render_page(path, verdict=judge(path, rules, kwargs.get("previous")), **kwargs)


@pytest.fixture(scope="module")
def audit(tmp_path_factory) -> Path:
    """Six samples of two classes, the last one predicted wrongly."""
    names = ["age", "age (copy)", "height", "weight"]
    graphs = [or_game(names, seed) for seed in range(6)]
    labels = ["cat"] * 3 + ["dog"] * 3
    return save(tmp_path_factory.mktemp("page") / "audit.json", graphs, labels, [*labels[:-1], "cat"])


@pytest.fixture(scope="module")
def page(audit) -> str:
    rules = [Rule(metric=f"{C}share_removable", max=0.1), Rule(metric=f"{C}density", max=1)]
    return judged(audit, rules, previous=audit)


class Outline(HTMLParser):
    """Elements in order with their attributes, and whether all are closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found, self.open = [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def of(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


def words(page: str) -> str:
    body = re.sub(r"<(style|script)\b.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body.replace("<wbr>", ""))).split())


def test_the_verdict_comes_first_and_everything_is_there(page):
    said = words(page)
    order = ["✗ Failed", "The model breaks 1 of 2 rules", "6 samples of 2 classes", "✗ fail", "is not met",
             "age = age (copy)", "6 of 6", "The same groups.", "mean over the curve", "kernel_shap", "0.700 ± 0.060",
             "Sample 5: why “cat”, labelled “dog”", "mine <i> 3.25 0.125", "forwards 7,000", "baseline 0",
             "torch 2.99.1"]  # fmt: skip
    places = [said.find(words) for words in order]
    assert -1 not in places, order[places.index(-1)]
    assert places[:3] == sorted(places[:3])
    assert said.index("✗ Failed") < said.index("age")
    sections = ["essential: features that matter", "What matters for class “cat”", "Strongest substitutes of class",
                "Groups of the redundancy graph H", "Class “cat”", "A good ranking names"]  # fmt: skip
    body = said[said.index("is not met") :]
    assert [body.index(words) for words in sections] == sorted(body.index(words) for words in sections)
    assert body.index("1 rule met") < body.index(sections[0])


def test_only_relevant_features_are_called_interchangeable(tmp_path):
    """OR(a, b) and two columns without effect, which H puts into one group with them."""
    weights = np.zeros((4, 4))
    weights[2:, :2] = 1 / 6
    graph = ExplanationGraph(weights, names=["a", "b", "idle", "dead"], shapley=[1 / 2, 1 / 2, 0, 0])
    said = words(render_page(save(tmp_path / "audit.json", [graph] * 3, ["x"] * 3)))
    assert "a = b 3 of 3" in said
    for text in ("idle", "dead"):
        assert re.search(rf"{text} 100 % 0 % 0 % 0 % 0 %", said)  # the first column is "irrelevant"
    called = [said[m.end() : m.end() + 60] for m in re.finditer("nterchangeable", said)]
    assert not [text for text in called if "idle" in text or "dead" in text]
    assert "Mutually redundant: a and b; 2 features that play no part." in said


def test_features_that_play_no_part_are_never_called_most_important(tmp_path):
    """A column that speaks against the output ranks below one without effect, which is still not important."""
    names = [*"abcd", "idle"]
    weights = 0.5 * np.outer(np.ones(5), [0.5, -0.2, 0.1, 0.05, 0.0]) * (1 - np.eye(5))
    weights[4, 2] = weights[2, 4] = 0.0  # one way and the other: a group with a column that plays no part
    graph = ExplanationGraph(weights, names=names, shapley=[0.5, -0.2, 0.1, 0.05, 0.0])
    assert list(graph.roles(1e-5)) == [*["essential"] * 4, "irrelevant"]
    nothing = ExplanationGraph(np.zeros((2, 2)), names=["left", "right"], shapley=[0.0, 0.0])
    for name, which in (("some", graph), ("none", nothing)):
        save(tmp_path / f"{name}.json", [which] * 3, ["x"] * 3)
    said = words(render_page(tmp_path / "some.json"))
    assert "Most important: a, c, d and b." in said
    assert "Mutually redundant: c, with 1 feature that plays no part." in said
    assert "No feature plays a part. Mutually redundant: 2 features that play no part." in words(
        render_page(tmp_path / "none.json")
    )


def test_parts_of_different_pictures_are_not_added_up_by_name(tmp_path):
    """Part 0 of one picture is not part 0 of another; with the same parts it is."""
    graphs = [or_game([str(k) for k in range(4)], seed) for seed in range(2)]
    found, arrays = content_of(graphs, ["x", "y"])
    stripes = np.arange(16).reshape(4, 4) % 4
    for name, second in (("own", stripes.T), ("same", stripes)):
        pictures = {f"image_{k}": np.zeros((4, 4), dtype=np.uint8) for k in range(2)}
        pictures |= {"segments_0": stripes.astype(np.int32), "segments_1": second.astype(np.int32)}
        path = replace(AuditRecord.from_fields(found), arrays=arrays | pictures).save(tmp_path / f"{name}.json")
        said = words(render_page(path))
        for by_name in ("The model leans most on", "in which each feature has each role"):
            assert (by_name in said) is (name == "same")


def test_tokens_of_texts_of_different_lengths_are_not_added_up_by_place(tmp_path):
    """Token 2 of one text is not token 2 of another, unless both go by their words."""
    graphs = [or_game([str(k) for k in range(n)], seed=n, n_players=n) for n in (4, 5)]
    found, arrays = content_of(graphs, ["x", "y"])
    for words_are_known in (False, True):
        for sample in found["samples"]:
            sample["words"] = list(sample["players"]) if words_are_known else None
        path = replace(AuditRecord.from_fields(found), arrays=arrays).save(tmp_path / f"{words_are_known}.json")
        said = words(render_page(path))
        assert ("in which each feature has each role" in said) is words_are_known


def test_numbers_without_an_interval_have_none_on_the_page(tmp_path):
    numbers = {"bivshap/roles/group_size": (2.5, 0.0), "bivshap/redundancy/empty_accuracy": (1.0, 0.0)}
    metrics = {name: {"value": value, "standard_error": error} for name, (value, error) in numbers.items()}
    graphs = [or_game(list("abcd"), seed) for seed in range(3)]
    found, arrays = content_of(graphs, ["x"] * 3)
    found["metrics"] |= metrics
    said = words(render_page(replace(AuditRecord.from_fields(found), arrays=arrays)))
    assert "2.5 none none" in said
    assert re.search(r"1 0 0\.4\d+ to 1", said)  # Wilson's, by the number of samples


def test_without_rules_the_headline_is_neutral(audit):
    said = words(render_page(audit))
    assert "No verdict: no rules were given" in said
    assert not re.search("passed|failed", said, re.IGNORECASE)
    assert "Since the previous record" not in said


def test_a_pass_and_its_warnings(audit):
    rules = [Rule(metric=f"{C}density", max=1), Rule(metric=f"{C}density", max=0, severity="warn")]
    said = words(judged(audit, rules))
    assert "✓ Passed The model passes, with 1 warning" in said
    assert "✓ Passed The model meets its 1 rule " in words(judged(audit, rules[:1]))


def test_the_page_is_accessible_and_asks_for_nothing(page):
    outline = Outline(page)
    ids = {attributes["id"] for _, attributes in outline.found if "id" in attributes}
    assert all(link["href"][0] == "#" and link["href"][1:] in ids for link in outline.of("a"))
    assert outline.of("a")[0] == {"class": "skip", "href": "#main"}
    assert not {"link", "iframe", "object", "base", "form"} & {tag for tag, _ in outline.found}
    assert [script["type"] for script in outline.of("script")] == ["application/json", "module"]
    assert all(image["src"].startswith("data:image/png;base64,") and image["alt"] for image in outline.of("img"))
    assert len(outline.of("img")) == 2 + 2 + 1 + 4
    assert len(outline.of("h1")) == 1
    assert len(outline.of("table")) == len(outline.of("caption"))
    assert all(head.get("scope") in ("row", "col") for head in outline.of("th"))
    (policy,) = (m["content"] for m in outline.of("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith(f"{POLICY}; script-src 'sha256-")
    (script,) = re.findall(r'<script type="module">(.*?)</script>', page, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.endswith(f"'sha256-{digest}'")  # this script and no other
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", page)
    assert "@import" not in page


def test_names_from_data_stay_text(tmp_path):
    graphs = [or_game(HOSTILE, seed) for seed in range(2)]
    run = encode(Run(stage=HOSTILE[0], checkpoint=HOSTILE[1], sample_keys=tuple(HOSTILE)))
    path = save(tmp_path / "audit.json", graphs, [HOSTILE[0]] * 2, run=run, versions={HOSTILE[0]: HOSTILE[1]},
                curves={HOSTILE[0]: CURVES["ours"]})  # fmt: skip
    page = judged(path, [Rule(metric=f"{C}share_removable", class_name=HOSTILE[0], max=0)])
    outline = Outline(page)
    assert {tag for tag, _ in outline.found} <= {
        "html", "head", "meta", "title", "style", "body", "a", "header", "div", "p", "h1", "nav", "ul", "li", "main",
        "section", "h2", "h3", "b", "span", "table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "img",
        "figcaption", "details", "summary", "small", "wbr", "footer", "noscript", "script",
    }  # fmt: skip
    assert not [a for _, attributes in outline.found for a in attributes if a.startswith("on")]
    assert html.escape(HOSTILE[0]) in page
    assert "&amp;lt;b&amp;gt;" in page
    assert page.count("<script") == page.count("</script") == 2  # the explorer and its data
    assert "<script" not in render_failure(HOSTILE[0])


def test_names_find_their_places(tmp_path):
    """Arrays are stored by position and rankings by rank: the weights must come back under their own names."""
    graphs = [or_game(["b", "d", "a", "c"], seed) for seed in range(4)]
    found = AuditRecord.load(save(tmp_path / "audit.json", graphs, ["x"] * 4))
    assert [g.names for g in found.sample_graphs] == [("b", "d", "a", "c")] * 4
    mean = np.mean([g.weights for g in graphs], axis=0)
    np.testing.assert_allclose(found.class_graphs["x"].weights, mean, atol=1e-6)


def test_texts_of_different_length(tmp_path):
    sentences = [["not", "bad", "at", "all"], ["very", "bad", "film"], ["film", "very", "bad"]]
    graphs = [or_game(names, seed, len(names)) for seed, names in enumerate(sentences)]
    page = render_page(save(tmp_path / "audit.json", graphs, ["good", "bad", "bad"]))
    assert len(Outline(page).of("img")) == 1 + 1 + 1 + 3
    assert "not and bad" in page


def test_images_are_drawn_by_the_names_of_their_pixels(tmp_path):
    names = [f"r{k // 6}c{k % 6}" for k in range(36)]
    graphs = [or_game(names, seed, 36) for seed in range(2)]
    page = render_page(save(tmp_path / "audit.json", graphs, ["0", "0"]))
    assert len(Outline(page).of("img")) == 1 + 1 + 1 + 2
    assert "Mutually redundant: r0c0 and r0c1." in page


def test_graphs_are_drawn_on_the_pictures_that_the_record_holds(tmp_path, monkeypatch):
    names = [f"r{k // 6}c{k % 6}" for k in range(36)]
    found, arrays = content_of([or_game(names, seed, 36) for seed in range(2)], ["0", "0"])
    image, drawn = np.arange(36, dtype=np.uint8).reshape(6, 6), []
    draw = drawings.draw_image_graphs

    def spy(graph, h, image, segments, **kwargs):
        drawn.append((image, segments))
        return draw(graph, h, image, segments, **kwargs)

    monkeypatch.setattr(drawings, "draw_image_graphs", spy)
    pictures = {"image_1": image, "segments_1": np.arange(36).reshape(6, 6)}
    page = render_page(write(tmp_path / "audit.json", found, npz(**arrays, **pictures)))
    # The class by its only picture, and the sample that has it; the other sample has none.
    assert len(drawn) == 2
    assert all((seen == image).all() for seen, _ in drawn)
    assert page.count("drawn on the picture") == 2
    assert "parts of one colour make each other redundant" in page


def test_texts_are_shown_as_sentences(tmp_path):
    found, arrays = content_of([or_game(["not", "bad", "at", "all"], 0)], ["good"], classes={})
    found["samples"][0]["words"] = ["not", "bad", "at", "<all>"]
    page = render_page(write(tmp_path / "audit.json", found, npz(**arrays)))
    assert "Explanation of the text “not bad at &lt;all&gt;”." in page


def test_numbers_by_class(audit, tmp_path):
    metrics = {f"{P}accuracy_with_representatives": Estimate(0.75, 0.125)}
    record = replace(AuditRecord.load(audit), class_metrics={"cat": ClassMetrics(3, metrics)})
    said = words(render_page(record))
    assert "samples with representatives cat 3 0.75 ± 0.12" in said  # columns that no class has are left out


def test_hand_made_records_without_curves_or_classes(tmp_path):
    graphs = [or_game(["a", "b", "c", "d"], 0)]
    path = save(tmp_path / "audit.json", graphs, ["x"], classes={}, curves={}, versions={})
    said = words(render_page(path))
    for sentence in ("The record holds no curves.", "There is no mean graph to draw", "Nothing was recorded."):
        assert sentence in said


@pytest.mark.parametrize(
    "damage", ["json", "npz", "no npz", "score", "curves", "shape", "nan", "nested", "words", "picture"]
)
def test_damaged_records_are_refused(tmp_path, damage):
    graphs = [or_game(["a", "b", "c", "d"], seed) for seed in range(2)]
    found, arrays = content_of(graphs, ["x", "x"])
    if damage == "score":
        found["samples"][0]["ranking"][1]["score"] = "high"
    elif damage == "curves":
        found["curves"]["ours"] = CURVES["ours"] | {"accuracy": [1.0]}
    elif damage == "nested":
        found["curves"] = {"ours": 3}
    elif damage == "words":
        found["samples"][1]["words"] = ["one"]
    elif damage == "picture":
        arrays |= {"image_0": np.zeros((3, 3)), "segments_0": np.full((3, 3), 9)}
    elif damage in ("shape", "nan"):
        arrays["weights"] = np.zeros((2, 3, 3)) if damage == "shape" else np.full((2, 4, 4), np.nan)
    path = write(tmp_path / "audit.json", found, npz(**arrays))
    beside = tmp_path / "record.npz"
    if damage == "json":
        path.write_text(path.read_text()[:-9])
    elif damage == "npz":
        beside.write_bytes(beside.read_bytes()[:100])
    elif damage == "no npz":
        beside.unlink()
    output = tmp_path / "report.html"
    output.write_text("The page of an earlier run: passed")
    assert refused(*call("report", path, "-o", output))
    assert "could not be read" in output.read_text()
    assert "earlier" not in output.read_text()


def test_records_of_other_models_are_compared_only_if_made_alike(audit, tmp_path):
    record = AuditRecord.load(audit)
    other = replace(record, configuration=replace(record.configuration, removal="background"))
    with pytest.raises(GateError, match="different removal"):
        render_page(audit, previous=other)
    weights = record.arrays["weights"].copy()
    weights[:, 0, 1] = weights[:, 1, 0] = 0.5
    names = record.samples[0].players
    graphs = [
        ExplanationGraph(w, names=names, shapley=s) for w, s in zip(weights, record.arrays["shapley"], strict=True)
    ]
    labels = [sample.label for sample in record.samples]
    metrics = {"bivshap/post_hoc_accuracy/ours": {"value": 0.75, "standard_error": 0.1}}
    said = words(render_page(audit, previous=save(tmp_path / "other.json", graphs, labels, metrics=metrics)))
    assert "new: age = age (copy) (6 of 6 samples)" in said
    assert "0.75 +0.05" in said
    drift = re.search(r"Drift of each class graph.*? cat ([\d.]+) ([\d.]+) ([\d.]+) dog", said)
    assert drift is not None
    assert float(drift[1]) > 0.1


def test_each_file_is_read_once_and_each_rule_judged_once(audit, tmp_path, monkeypatch):
    """`bivshap report --rules --against` and `bivshap gate --against`: one parse, one hash, one judgement of each."""
    old = tmp_path / "old.json"
    old.write_bytes(audit.read_bytes())
    old.with_suffix(".npz").write_bytes(audit.with_suffix(".npz").read_bytes())
    rules = tmp_path / "gate.toml"
    rules.write_text(f'[[rule]]\nmetric = "{C}share_removable"\nmax = 1\n[[rule]]\nmetric = "drift/weights"\nmax = 1\n')
    parsed, hashed, judged_rules = [], [], []
    loads, sha256, judge_rule = json.loads, hashlib.sha256, judging._judge_rule
    files = {path: path.read_bytes() for path in (audit, audit.with_suffix(".npz"))}

    def count_parse(text, **kwargs):
        parsed.append(text == files[audit])
        return loads(text, **kwargs)

    def count_hash(data=b"", **kwargs):
        hashed.append(data == files[audit.with_suffix(".npz")])
        return sha256(data, **kwargs)

    def count_rule(*args):
        judged_rules.append(args[0].name)
        return judge_rule(*args)

    monkeypatch.setattr(json, "loads", count_parse)
    monkeypatch.setattr(hashlib, "sha256", count_hash)
    monkeypatch.setattr(judging, "_judge_rule", count_rule)
    for command in (["report", audit, "-o", tmp_path / "r.html"], ["gate", audit]):
        for counts in (parsed, hashed, judged_rules):
            counts.clear()
        assert call(*command, "--rules", rules, "--against", old)[0] == 0
        assert (sum(parsed), sum(hashed)) == (2, 2)  # two records of the same bytes
        assert len(judged_rules) == len(set(judged_rules)) == 2


def test_the_command_writes_the_page_whatever_the_verdict(audit, tmp_path):
    rules = tmp_path / "gate.toml"
    rules.write_text(f'[[rule]]\nmetric = "{C}share_removable"\nmax = 0.1\n')
    code, output = call("report", audit, "-o", tmp_path / "r.html", "--rules", rules, "--against", audit)
    assert code == 0
    assert output.startswith(f"bivshap: page {tmp_path / 'r.html'}; gate FAILED: 0 passed, 1 failed")
    code, output = call("report", audit, "-o", tmp_path / "r.html", "--rules", rules, "--json")
    said = json.loads(output)
    assert (code, said["page"], said["verdict"]["passed"]) == (0, str(tmp_path / "r.html"), False)
    assert json.loads(call("report", audit, "-o", tmp_path / "neutral.html", "--json")[1])["verdict"] is None
    assert "✗ Failed" in (tmp_path / "r.html").read_text(encoding="utf-8")
    code, output = call("report", audit, "-o", tmp_path / "no" / "r.html")
    assert refused(code, output)
    assert "`--output` must be a writable file" in output
    rules.write_text("[[rule]]\n")
    assert refused(*call("report", audit, "-o", tmp_path / "r.html", "--rules", rules))
    assert "could not be read" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_reporting_needs_no_torch(audit, tmp_path):
    arguments = ["report", str(audit), "-o", str(tmp_path / "r.html")]
    code = (
        f"import sys; from bivshap_lightning import cli; code = cli.main({arguments!r})\n"
        "print(sorted({'torch', 'pytorch_lightning', 'captum'} & set(sys.modules)), code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines()[-1] == "[] 0", done.stderr


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_the_page_in_a_browser(page, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(page, encoding="utf-8")
    with chromium() as browser:
        for width in (1200, 390):
            tab = browser.new_page(viewport={"width": width, "height": 800})
            said, asked = [], []
            tab.on("console", lambda message, said=said: said.append(message.text))
            tab.on("pageerror", lambda error, said=said: said.append(str(error)))
            tab.on("request", lambda request, asked=asked: asked.append(request.url))
            tab.goto(file.as_uri(), wait_until="load")
            heading = tab.locator("h1").bounding_box()
            assert heading["y"] + heading["height"] < 400
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            wide = "[...document.querySelectorAll('table')].filter(t => t.getBoundingClientRect().right > innerWidth)"
            assert tab.evaluate(f"{wide}.length") == 0
            assert tab.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 600)")
            tab.keyboard.press("Tab")
            assert tab.evaluate("document.activeElement.className") == "skip"
            assert tab.locator(".skip").bounding_box()["x"] >= 0
            tab.keyboard.press("Enter")
            assert tab.evaluate("document.activeElement.id") == "main"
            # Everything that folds unfolds by keyboard.
            tab.locator("details > summary").first.focus()
            tab.keyboard.press("Enter")
            assert tab.evaluate("document.querySelector('details').open")
            assert said == []
            assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
        # On paper everything is unfolded, on white, and nothing is cut off.
        tab.emulate_media(media="print")
        assert tab.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
        assert tab.evaluate("[...document.querySelectorAll('details')].every(d => d.offsetHeight > 60)")
        assert tab.pdf(format="A4").startswith(b"%PDF")


def test_the_page_holds_as_many_graphs_as_there_is_room_for(audit, monkeypatch):
    content = PageContent(AuditRecord.load(audit))
    (record,) = explorer.embedded_data(content)["records"]
    assert list(record["graphs"]) == ["class:cat", "class:dog", "sample:5", *list(record["graphs"])[3:]]
    assert all(subject["is_here"] for subject in record["description"]["subjects"])
    monkeypatch.setattr(explorer, "MAX_BYTES", 10)
    (record,) = explorer.embedded_data(content)["records"]
    assert list(record["graphs"]) == ["class:cat"]
    assert sum(subject["is_here"] for subject in record["description"]["subjects"]) == 1


def test_the_explorer_compares_what_both_records_have(audit, tmp_path):
    """The previous record has one class and two samples only."""
    graphs = [or_game(["age", "age (copy)", "height", "weight"], seed) for seed in range(2)]
    previous = AuditRecord.load(save(tmp_path / "old.json", graphs, ["cat", "cat"]))
    now, before = explorer.embedded_data(PageContent(AuditRecord.load(audit), previous))["records"]
    assert [now["run"], before["run"]] == ["this record", "previous record"]
    assert set(before["graphs"]) == {"class:cat", "sample:0", "sample:1"}


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_the_explorer_in_the_page(page, audit, tmp_path):
    """No server, no request: the page decides at a gamma what Python decides."""
    file = tmp_path / "report.html"
    file.write_text(page, encoding="utf-8")
    graph = AuditRecord.load(audit).class_graphs["cat"]
    with chromium() as browser:
        tab = browser.new_page(viewport={"width": 1200, "height": 900})
        said, asked = [], []
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(file.as_uri(), wait_until="load")
        tab.locator("[data-count]").first.wait_for(timeout=20_000)
        for gamma in (graph.relative_gamma, 0.3):
            tab.get_by_label("Gamma as a number").fill(repr(gamma))
            tab.get_by_label("Gamma as a number").press("Enter")
            h, roles = graph.redundancy(gamma), graph.roles(gamma)
            tab.locator(f"[data-count=redundant-pairs][data-value='{h.n_redundant}']").wait_for(timeout=10_000)
            assert tab.locator("[data-count=groups]").get_attribute("data-value") == str(len(h.groups))
            for role in set(roles.roles):
                shown = tab.locator(f"[data-count={role}]").get_attribute("data-value")
                assert shown == str(roles.roles.count(role))
        for view in ("Graph", "Matrix", "On the input", "Numbers", "Over time"):
            tab.get_by_role("tab", name=view).click()
            tab.locator("#main-view svg").first.wait_for(timeout=10_000)
        assert "Compare with" in tab.locator("#main-view").inner_text()
        assert "The gate failed" not in tab.locator("#main-view").inner_text()
        tab.get_by_role("tab", name="Numbers").click()
        assert "The gate failed" in tab.locator("#main-view").inner_text()
        # A link to a folded section opens it.
        tab.locator("nav a", has_text="Groups").click()
        tab.locator("#groups > details[open]").wait_for(timeout=10_000)
        assert said == []
        assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
