"""Bad input is refused by `attribute` and `bivshap audit` in the words of the house rule.

That the callback refuses it and leaves training alone is seen in the table of styles.
"""

import re
import resource

import pytest
import torch

from bivshap_lightning import BivariateShapley
from bivshap_lightning.callbacks import BivShapCallback
from tests.callbacks.bad_inputs import BAD_INPUT, Data
from tests.callbacks.style_modules import Base, data

RULE = r"`\w+` must .*, got .*\. "
MOST_MEMORY = 500 * 2**20


def most_memory() -> int:
    """Bytes that this process has held at most."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize("style", BAD_INPUT, ids=lambda style: style.name)
def test_attribute_refuses_it(style):
    options = dict(style.audit)
    method = options.pop("method", "auto")
    if "feature_mask" in options:
        options["feature_mask"] = torch.tensor(options["feature_mask"])[None]
    before = most_memory()
    with pytest.raises((ValueError, TypeError), match=style.refused) as caught:
        BivariateShapley(style.make(), method=method).attribute(data(4, 2).tensors[0], **options)
    assert re.match(RULE, str(caught.value))
    assert most_memory() - before < MOST_MEMORY


def audit(call, folder, make, *words) -> str:
    """The one line on standard error of an audit that is refused."""
    checkpoint = folder / "model.ckpt"
    torch.save({"state_dict": make().state_dict()}, checkpoint)
    code, out, err = call(
        "--checkpoint", checkpoint, "--model", f"{make.__module__}.{make.__qualname__}",
        "--data", f"{Data.__module__}.{Data.__qualname__}", "--trainer.accelerator=cpu", "--audit.n_samples=4",
        "--audit.panels=false", "--audit.compare_with=[]", "-o", folder / "out", *words,
    )  # fmt: skip
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert not (folder / "out" / "audit.json").exists()
    return err


@pytest.mark.parametrize("style", BAD_INPUT, ids=lambda style: style.name)
def test_the_offline_audit_refuses_it(style, project, call, tmp_path):
    words = [f"--audit.{name}={value}" for name, value in style.audit.items()]
    line = audit(call, tmp_path, style.make, *words)
    assert re.match(f"bivshap: {RULE}", line)
    assert re.search(style.refused, line)


@pytest.mark.parametrize(
    ("names", "match"),
    [
        (["cat", "dog", "cat"], "`class_names` must be distinct, got 'cat' more than once"),
        (["some", "all"], "`class_names` must not hold 'all', which gate rules use"),
    ],
)
def test_the_offline_audit_refuses_names_of_classes(names, match, project, call, tmp_path):
    assert match in audit(call, tmp_path, Base, f"--audit.class_names={names}")


@pytest.mark.parametrize("number", ["many", 1e12, float("nan"), 2.5, [64]])
def test_numbers_of_evaluations_are_whole(number):
    match = r"`n_evaluations` must be a whole number or None, got .*\. Leave it out for the default"
    with pytest.raises(ValueError, match=match):
        BivariateShapley(Base()).attribute(data(4, 2).tensors[0], n_evaluations=number)
    with pytest.raises(ValueError, match=match):
        BivShapCallback(n_evaluations=number)
