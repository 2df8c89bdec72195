import contextlib

import pytest
import torch
from torch import nn

from bivshap_lightning.audit.batches import Batch, Forward, batch_tree, read_batch

X, Y = torch.randn(4, 3), torch.tensor([0, 1, 0, 1])
TOKENS, ATTENTION = torch.randint(9, (4, 5)), torch.ones(4, 5, dtype=torch.long)


@pytest.mark.parametrize(
    ("batch", "n_inputs", "labels"),
    [
        (X, 1, None),
        ((X,), 1, None),
        ([X], 1, None),
        ((X, Y), 1, Y),
        ([X, Y], 1, Y),
        ((X, Y[:, None].float()), 1, Y[:, None].float()),
        ((X, torch.randn(4, 2), Y), 2, Y),
        (((X, torch.randn(4, 2)), Y), 2, Y),
        ((X, torch.randn(4, 2)), 2, None),
        ({"x": X, "y": Y}, 1, Y),
        ({"image": X, "label": Y, "name": ["a", "b", "c", "d"]}, 1, Y),
    ],
)
def test_common_batches_are_understood(batch, n_inputs, labels):
    found = read_batch(batch)
    assert len(found.inputs) == n_inputs
    assert torch.equal(found.inputs[0], X)
    assert (found.labels is None) == (labels is None)
    assert labels is None or torch.equal(found.labels, labels)
    assert found.by_name is None


def test_hugging_face_batches_are_passed_by_name():
    found = read_batch({"input_ids": TOKENS, "attention_mask": ATTENTION, "labels": Y})
    assert found.by_name == "input_ids"
    assert list(found.extra) == ["attention_mask"]

    class Module(nn.Module):
        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"logits": input_ids.float() * attention_mask}

    forward = Forward(Module(), found, None, contextlib.nullcontext)
    assert torch.equal(forward(TOKENS, ATTENTION)["logits"], TOKENS.float())


def test_functions_say_what_cannot_be_guessed():
    batch = [{"deep": {"pixels": X}}, Y]
    assert read_batch(batch, lambda b: b[0]["deep"]["pixels"]).labels is None
    assert torch.equal(read_batch(batch, lambda b: (b[0]["deep"]["pixels"], b[1])).labels, Y)
    assert len(read_batch(batch, lambda b: (X, torch.randn(4, 2))).inputs) == 2
    assert read_batch(batch, lambda b: (X, None)).labels is None
    found = read_batch((X, Y))
    forward = Forward(nn.Linear(3, 2), found, lambda module, x: module(x) * 0 + 7, contextlib.nullcontext)
    assert forward(X).eq(7).all()


def test_rows_can_be_exchanged():
    found = read_batch({"input_ids": TOKENS, "attention_mask": ATTENTION, "labels": Y})
    two = found.like([t[:2] for t in found.tensors])
    assert isinstance(two, Batch)
    assert (len(two), list(two.extra), two.by_name) == (2, ["attention_mask"], "input_ids")
    assert torch.equal(two.labels, Y[:2])


@pytest.mark.parametrize(
    "batch", [{"pixels": X}, "text", [], {"x": ["a"]}, [{"x": X}, Y], (X, torch.randn(5, 2)), torch.tensor(1.0)]
)
def test_other_batches_are_shown_with_the_lines_that_help(batch):
    with pytest.raises(TypeError, match=r"(?s)`batch` must hold input tensors.*input_fn=lambda batch.*forward_fn="):
        read_batch(batch)


def test_the_structure_of_a_batch_in_words():
    text = batch_tree({"image": X, "meta": [{"id": Y}, ("a", "b")], "n": 3})
    assert text.splitlines() == [
        "  dict",
        "    image: float32 (4, 3)",
        "    meta: list",
        "      0: dict",
        "        id: int64 (4,)",
        "      1: tuple of 2 str",
        "    n: int",
    ]


def two_inputs(image, table):
    """Stands for a module's forward."""


def test_a_mapping_of_several_inputs_by_the_names_of_forward():
    batch = {"table": torch.zeros(4, 2), "image": X, "y": Y, "id": torch.arange(4)}
    found = read_batch(batch, forward=two_inputs)
    assert [tuple(x.shape) for x in found.inputs] == [(4, 3), (4, 2)]
    assert found.labels is Y


def test_targets_of_several_columns_are_told_by_the_arguments_of_forward():
    found = read_batch((X, torch.randn(4, 2)), forward=lambda x: x)
    assert len(found.inputs) == 1
    assert found.labels.shape == (4, 2)
    assert len(read_batch((X, torch.randn(4, 2)), forward=two_inputs).inputs) == 2
    assert len(read_batch((X, torch.randn(4, 2)), forward=lambda *x: x).inputs) == 2


def test_a_forward_with_one_argument_gets_the_tuple_that_the_batch_holds():
    class Pair(nn.Module):
        def forward(self, pair: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
            numbers, codes = pair
            return numbers.sum(dim=1) + codes.sum(dim=1)

    module, codes = Pair(), torch.ones(4, 2)
    found = read_batch([[X, codes], Y], forward=module.forward)
    again = found.like([t[:2] for t in found.tensors])
    forward = Forward(module, again, None, contextlib.nullcontext)
    assert torch.equal(forward(X[:2], codes[:2]), X[:2].sum(dim=1) + 2)
    assert not read_batch([[X, codes], Y], forward=two_inputs).as_tuple
    assert not read_batch([X, codes, Y], forward=module.forward).as_tuple  # which of the two it is for is not known


def test_the_message_shows_the_line_for_this_batch():
    with pytest.raises(
        TypeError, match=r"input_fn=lambda batch: \(\(batch\['left'\], batch\['right'\]\), batch\['y'\]\)"
    ):
        read_batch({"left": X, "right": X, "y": Y}, forward=two_inputs)
    with pytest.raises(TypeError, match=r"forward takes image, table\.[^$]*--audit\.input_fn package\.module"):
        read_batch({"left": X, "right": X, "y": Y}, forward=two_inputs)


class TakesBatch(torch.nn.Module):
    def forward(self, batch):
        return batch["left"] + 2 * batch["right"]


def test_the_line_for_a_forward_that_takes_the_batch_itself_works():
    module, batch = TakesBatch(), {"left": X, "right": 10 * X, "y": Y}
    with pytest.raises(
        TypeError, match=r"import paths of such functions: --audit\.input_fn .* --audit\.forward_fn"
    ) as caught:
        read_batch(batch, forward=module.forward)
    shown = str(caught.value)
    call = shown[shown.index("BivShapCallback(") : shown.index("\nOn the command line")]
    functions = eval(call, {"BivShapCallback": dict})
    inputs, labels = functions["input_fn"](batch)
    assert torch.equal(functions["forward_fn"](module, *inputs), module(batch))
    assert labels is Y
