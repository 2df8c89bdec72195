"""Texts through the front door: who plays, how a token is removed, and that the model is left alone."""

import copy
import functools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from bivshap_lightning import BivariateShapley, Game
from bivshap_lightning.explainers import find_explainer
from bivshap_lightning.game.embedding import ZeroEmbedding
from bivshap_lightning.game.players import Tokens
from tests.oracles import enumerate_e2

PAD, CLS, SEP, UNK = 0, 1, 2, 3
WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "the", "worst", "sur", "##prising", "##ly", "awful"]
TEXTS = torch.tensor([[CLS, 4, 5, 6, 7, 8, 9, SEP], [CLS, 9, 4, SEP, PAD, PAD, PAD, PAD]])
ATTENTION = (TEXTS != PAD).long()


class Reader(nn.Module):
    """A GRU over embedded tokens that reads up to the end of each text."""

    def __init__(self, time_first: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS), 6, padding_idx=PAD)
        self.gru = nn.GRU(6, 8, batch_first=not time_first)
        self.head = nn.Linear(8, 2)
        self.time_first = time_first

    def forward(self, ids, attention_mask=None):
        kept = (ids != PAD) if attention_mask is None else attention_mask.bool()
        states, _ = self.gru(self.embedding(ids.t() if self.time_first else ids))
        states = states.transpose(0, 1) if self.time_first else states
        return self.head((states * kept[..., None]).sum(dim=1) / kept.sum(dim=1, keepdim=True).clamp(min=1))


@pytest.fixture
def reader():
    torch.manual_seed(0)
    return Reader().eval()


def tiny_bert(**kwargs):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=12, num_labels=2, initializer_range=0.5, **kwargs,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config).eval()


def probability_without(model, ids, mask, absent, target, *, zeroed=None, replacement=PAD):
    """The oracle: one text, by hand; absent players replaced by a token, or zeroed in a copy's embedding output."""
    gone = torch.isin(mask, torch.tensor(sorted(absent), dtype=torch.long)) & (mask >= 0)
    ids = ids.clone()
    model = copy.deepcopy(model)
    if zeroed is None:
        ids[gone] = replacement
    else:
        model.get_submodule(zeroed).register_forward_hook(lambda m, args, out: out * ~gone[None, :, None])
    with torch.no_grad():
        scores = model(ids[None], attention_of(ids, mask)[None])
    scores = scores if isinstance(scores, torch.Tensor) else scores.logits
    return float(scores.double().softmax(dim=1)[0, target])


def attention_of(ids, mask):
    """Everything up to the last special token or player is attended."""
    last = int(((mask >= 0) | (ids == CLS) | (ids == SEP)).nonzero().max())
    return (torch.arange(len(ids)) <= last).long()


def oracle(model, ids, mask, target, **how):
    n = int(mask.max()) + 1

    @functools.cache
    def value(present):
        return probability_without(model, ids, mask, set(range(n)) - present, target, **how)

    return enumerate_e2(value, n)


@pytest.mark.parametrize("whole_words", [False, True])
@pytest.mark.parametrize("removal", ["pad", "unknown", "zero embedding"])
@pytest.mark.parametrize("kind", ["gru", "bert"])
def test_ragged_texts_against_enumeration(kind, removal, whole_words, reader):
    model = reader if kind == "gru" else tiny_bert()
    layer = "embedding" if kind == "gru" else "bert.embeddings.word_embeddings"
    tokens = Tokens(WORDS, pad_id=PAD, special_ids=[CLS, SEP], whole_words=whole_words)
    mask = replace(tokens, attention_mask=ATTENTION)(TEXTS)
    baselines = {"pad": PAD, "unknown": UNK, "zero embedding": ZeroEmbedding()}[removal]
    how = {"pad": {}, "unknown": {"replacement": UNK}, "zero embedding": {"zeroed": layer}}[removal]
    explanation = BivariateShapley(model, method="exact").attribute(
        TEXTS, baselines=baselines, additional_forward_args=ATTENTION, feature_mask=mask
    )
    assert explanation.player_counts.tolist() == ([4, 2] if whole_words else [6, 2])
    for b in range(2):
        n = int(explanation.player_counts[b])
        expected = oracle(model, TEXTS[b], mask[b], int(explanation.target[b]), **how)
        np.testing.assert_allclose(explanation.bivariate[b, :n, :n], expected, atol=2e-6)
        assert np.abs(expected).max() > 1e-4


def test_players_are_the_real_tokens_and_their_words():
    tokens = Tokens(WORDS, pad_id=PAD, special_ids=[CLS, SEP])
    assert tokens(TEXTS).tolist() == [[-1, 0, 1, 2, 3, 4, 5, -1], [-1, 0, 1, -1, -1, -1, -1, -1]]
    assert tokens.names(TEXTS)[1] == ("awful", "the")
    words = Tokens(WORDS, pad_id=PAD, special_ids=[CLS, SEP], whole_words=True)
    assert words(TEXTS)[0].tolist() == [-1, 0, 1, 2, 2, 2, 3, -1]
    assert words.names(TEXTS)[0] == ("the", "worst", "surprisingly", "awful")
    assert Tokens(WORDS).names(torch.tensor([[4, 4, 5]])) == [("the", "the (2)", "worst")]
    assert Tokens().names(TEXTS) is None


def test_padding_is_what_stands_at_the_ends_or_what_the_attention_mask_hides():
    tokens = Tokens(pad_id=PAD)
    assert tokens(torch.tensor([[PAD, 4, PAD, 5, PAD]])).tolist() == [[-1, 0, 1, 2, -1]]
    # The mask knows better: the last token is a word that happens to have the id of padding.
    attention = torch.tensor([[0, 1, 1, 1, 1]])
    tokens = replace(tokens, attention_mask=attention)
    assert tokens(torch.tensor([[PAD, 4, PAD, 5, PAD]])).tolist() == [[-1, 0, 1, 2, 3]]


def test_a_pad_token_that_occurs_as_a_word_is_a_player_that_changes_nothing(reader):
    ids, attention = torch.tensor([[4, PAD, 5]]), torch.ones(1, 3, dtype=torch.long)
    mask = Tokens(pad_id=PAD, attention_mask=attention)(ids)
    game = Game(reader, ids, baselines=PAD, feature_mask=mask, additional_forward_args=attention)
    assert game.player_counts.tolist() == [3]
    assert game.null_players.tolist() == [[False, True, False]]
    # Its embedding is zero (padding_idx), so it is null in the other removal too.
    game = Game(reader, ids, baselines=ZeroEmbedding(), feature_mask=mask, additional_forward_args=attention)
    assert game.null_players.tolist() == [[False, True, False]]


@pytest.mark.parametrize(
    ("vocabulary", "ids", "expected"),
    [
        ({0: "\u0120the", 1: "sur", 2: "prising", 3: "\u0120film"}, [[0, 1, 2, 3]], [[0, 0, 0, 1]]),
        ({0: "\u2581the", 1: "sur", 2: "\u2581film"}, [[1, 0, 1, 2]], [[0, 1, 1, 2]]),
        (lambda k: ["a", "##b"][k], [[0, 1, 1, 0]], [[0, 0, 0, 1]]),
    ],
)  # fmt: skip
def test_words_by_the_marks_of_the_vocabulary(vocabulary, ids, expected):
    assert Tokens(vocabulary, whole_words=True)(torch.tensor(ids)).tolist() == expected


@pytest.mark.parametrize("letter", ["\u0120", "\u2581"])
def test_a_mark_of_other_vocabularies_may_be_a_letter(letter):
    tokens = Tokens(["sur", "##prising", "##ly", "end", letter], whole_words=True)
    assert tokens.names(torch.tensor([[0, 1, 2, 3]])) == [("surprisingly", "end")]
    byte_level = Tokens(["\u0120the", "\u0120sur", "prising", "##"], whole_words=True)
    assert byte_level.names(torch.tensor([[0, 1, 2, 3]])) == [("the", "surprising")]


def test_a_space_alone_has_a_name():
    tokens = Tokens(["\u2581", "the", "\u2581end"])
    assert tokens.names(torch.tensor([[0, 1, 0, 2]])) == [("\u2423", "the", "\u2423 (2)", "end")]
    assert replace(tokens, whole_words=True).names(torch.tensor([[0, 1, 0, 2]])) == [("the", "\u2423", "end")]


def test_words_by_the_users_own_rule():
    tokens = Tokens(["a", "-b", "c"], whole_words=True, continues=lambda token: token.startswith("-"))
    assert tokens(torch.tensor([[0, 1, 2]])).tolist() == [[0, 0, 1]]


def test_a_tokenizer_says_everything_itself():
    tokenizer = SimpleNamespace(
        pad_token_id=PAD, unk_token_id=UNK, all_special_ids=[PAD, CLS, SEP, UNK],
        convert_ids_to_tokens=WORDS.__getitem__, get_vocab=lambda: {word: k for k, word in enumerate(WORDS)},
    )  # fmt: skip
    tokens = Tokens(tokenizer, whole_words=True)
    assert tokens(torch.tensor([[CLS, UNK, 6, 7, SEP, PAD]])).tolist() == [[-1, 0, 1, 1, -1, -1]]


def test_a_real_tokenizer():
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    vocabulary = {word: k for k, word in enumerate([*WORDS, "film"])}
    pieces = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    pieces.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    pieces.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)]
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=pieces, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    batch = tokenizer(["the surprisingly awful film", "worst"], padding=True, return_tensors="pt")
    tokens = Tokens(tokenizer, whole_words=True)
    assert tokens.names(batch["input_ids"]) == [("the", "surprisingly", "awful", "film"), ("worst",)]
    attending = replace(tokens, attention_mask=batch["attention_mask"])
    torch.testing.assert_close(tokens(batch["input_ids"]), attending(batch["input_ids"]))


def test_ragged_texts_equal_the_same_texts_one_by_one(reader):
    tokens = Tokens(pad_id=PAD, special_ids=[CLS, SEP])
    explainer = BivariateShapley(reader, method="sampling", seed=3)
    both = explainer.attribute(TEXTS, ZeroEmbedding(), None, ATTENTION, tokens, n_evaluations=2000)
    for b in range(2):
        text, attention = TEXTS[b : b + 1], ATTENTION[b : b + 1]
        alone = BivariateShapley(reader, method="exact").attribute(text, ZeroEmbedding(), None, attention, tokens)
        n = int(both.player_counts[b])
        error = (both.bivariate[b, :n, :n] - alone.bivariate[0, :n, :n]).abs()
        assert bool((error <= 6 * both.standard_error[b, :n, :n] + 1e-5).all())
    exact = BivariateShapley(reader, method="exact").attribute(TEXTS, ZeroEmbedding(), None, ATTENTION, tokens)
    alone = BivariateShapley(reader, method="exact").attribute(TEXTS[1:], ZeroEmbedding(), None, ATTENTION[1:], tokens)
    torch.testing.assert_close(exact.bivariate[1, :2, :2], alone.bivariate[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("time_first", [False, True])
def test_the_embedding_route_leaves_the_module_unchanged(time_first):
    torch.manual_seed(0)
    model = Reader(time_first).train()
    before = copy.deepcopy(model.state_dict())
    hooks = {name: len(m._forward_hooks) for name, m in model.named_modules()}
    game = Game(model, TEXTS, baselines=ZeroEmbedding(), additional_forward_args=ATTENTION)
    nobody, everyone = torch.zeros(1, 1, 8, dtype=torch.bool), torch.ones(1, 1, 8, dtype=torch.bool)
    values = game(torch.cat([nobody, everyone], dim=1))
    with torch.no_grad():
        full = model.eval()(TEXTS, ATTENTION).softmax(dim=1).gather(1, game.target[:, None])[:, 0]
        model.embedding.weight.zero_()
        empty = model(TEXTS, ATTENTION).softmax(dim=1).gather(1, game.target[:, None])[:, 0]
    torch.testing.assert_close(values, torch.stack([empty, full], dim=1))
    model.load_state_dict(before)
    assert {name: len(m._forward_hooks) for name, m in model.named_modules()} == hooks
    assert not any(p.grad is not None for p in model.parameters())


def test_the_flag_of_training_and_weights_stay(reader):
    reader.train()
    before = copy.deepcopy(reader.state_dict())
    BivariateShapley(reader).attribute(TEXTS, ZeroEmbedding(), additional_forward_args=ATTENTION)
    assert reader.training
    assert reader.embedding.training
    for name, value in reader.state_dict().items():
        assert torch.equal(value, before[name])


def test_gradient_methods_explain_texts_in_the_space_of_embeddings(reader):
    tokens = Tokens(pad_id=PAD, special_ids=[CLS, SEP])
    game = Game(reader, TEXTS, baselines=ZeroEmbedding(), feature_mask=tokens, additional_forward_args=ATTENTION)
    scores = find_explainer("integrated_gradients").explain(game).shapley
    ends = game(torch.stack([torch.zeros(6, dtype=torch.bool), torch.ones(6, dtype=torch.bool)])[None])
    torch.testing.assert_close(scores.sum(dim=1), ends[:, 1] - ends[:, 0], atol=1e-3, rtol=0)


def test_an_embedding_by_name_and_among_other_inputs():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.places, self.words = nn.Embedding(8, 4), nn.Embedding(10, 4)

        def forward(self, ids, table):
            places = self.places(torch.arange(ids.shape[1]).expand_as(ids))
            return (self.words(ids) * places).sum(dim=(1, 2)) + table.sum(dim=1)

    torch.manual_seed(0)
    model, table = Mixed(), torch.tensor([[1.0, 2.0]])
    ids = torch.tensor([[4, 5, 9]])
    for spec in (ZeroEmbedding(), ZeroEmbedding(layer="words")):
        game = Game(model, (ids, table), baselines=(spec, 0.0), behavior="output")
        assert game.n_players == 5
        gains = game(torch.eye(5, dtype=torch.bool)[None])[0] - game(torch.zeros(1, 1, 5, dtype=torch.bool))[0, 0]
        with torch.no_grad():
            own = (model.words(ids) * model.places(torch.arange(3))).sum(dim=2)[0]
        torch.testing.assert_close(gains, torch.cat([own, table[0]]), atol=1e-6, rtol=1e-5)


def test_an_empty_text_has_no_players_and_says_so(reader):
    texts = torch.cat([TEXTS, torch.tensor([[CLS, SEP] + [PAD] * 6])])
    tokens = Tokens(WORDS, pad_id=PAD, special_ids=[CLS, SEP])
    explanation = BivariateShapley(reader).attribute(texts, PAD, None, (texts != PAD).long(), tokens)
    assert explanation.player_counts.tolist() == [6, 2, 0]
    assert not explanation.bivariate[2].any()
    assert explanation.graph(1).names == ("awful", "the")
    with pytest.raises(ValueError, match="must name a sample that has players, got 2, which has none"):
        explanation.graph(2)
    with pytest.raises(ValueError, match="`inputs` must hold at least one player, got none"):
        Game(reader, texts[2:], baselines=PAD, feature_mask=tokens)


def test_a_text_longer_than_the_models_limit_is_refused():
    model = tiny_bert()
    with pytest.raises(ValueError, match="must be texts of at most 12 tokens, the model's limit, got 13"):
        Game(model, torch.full((1, 13), 4), baselines=PAD)


def test_an_unknown_token_is_refused(reader):
    with pytest.raises(ValueError, match=r"must hold codes within the range of the model, .* got codes from 4 to 10"):
        Game(reader, torch.tensor([[4, 10]]), baselines=PAD)


def test_what_cannot_be_embedded_as_zero_is_refused(reader):
    with pytest.raises(ValueError, match="must go with a torch module and integer tokens"):
        Game(nn.Linear(3, 2), torch.zeros(1, 3), baselines=ZeroEmbedding())
    with pytest.raises(ValueError, match="a model that is no torch module"):
        Game(lambda ids: ids.float(), TEXTS, baselines=ZeroEmbedding())
    with pytest.raises(ValueError, match=r"`layer` must name .* got 'words'; embeddings are \['embedding'\]"):
        Game(reader, TEXTS, baselines=ZeroEmbedding("words"))

    class OneHot(nn.Module):
        def forward(self, ids):
            return nn.functional.one_hot(ids, 10).float().sum(dim=1)

    with pytest.raises(ValueError, match=r"must find an nn\.Embedding layer that reads input 0, got none"):
        Game(OneHot(), TEXTS, baselines=ZeroEmbedding())
    with pytest.raises(ValueError, match=r"must find .* reads input 0, got only \['head'\], which read something else"):
        Game(reader, TEXTS, baselines=ZeroEmbedding("head"))


def test_bad_tokens_are_refused():
    with pytest.raises(ValueError, match="`vocabulary` must be given to join tokens"):
        Tokens(whole_words=True)
    tokenizers = pytest.importorskip("tokenizers")
    with pytest.raises(TypeError, match="`vocabulary` must be a tokenizer of transformers, got one of tokenizers"):
        Tokens(tokenizers.Tokenizer(tokenizers.models.BPE()))
    with pytest.raises(ValueError, match=r"`inputs` must be \(B, T\) integer tokens"):
        Tokens()(torch.zeros(1, 3))
    with pytest.raises(ValueError, match="`attention_mask` must have the shape of the tokens"):
        Tokens(attention_mask=ATTENTION[:, :3])(TEXTS)
    with pytest.raises(ValueError, match="`vocabulary` must know every token, got none for id 99"):
        Tokens(WORDS).names(torch.tensor([[99]]))


class Twice(nn.Module):
    """Embeds its tokens in two tables, or in one twice; or one table for two texts."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.kind, self.first, self.second = kind, nn.Embedding(10, 4), nn.Embedding(10, 4)
        self.head = nn.Linear(8, 2)

    def forward(self, ids, other=None):
        if self.kind == "two texts":
            ways = self.first(ids), self.first(other)
        elif self.kind == "two tables for two texts":
            ways = tuple(reversed((self.second(other), self.first(ids))))
        else:
            ways = self.first(ids), (self.second if self.kind == "two tables" else self.first)(ids)
        return self.head(torch.cat([way.cumsum(dim=1).tanh().mean(dim=1) for way in ways], dim=1))


def test_tokens_that_two_layers_read_are_refused():
    with pytest.raises(ValueError, match=r"must find one layer that reads input 0, once, got \['first', 'second'\]"):
        Game(Twice("two tables"), TEXTS, baselines=ZeroEmbedding())
    game = Game(Twice("one table"), TEXTS, baselines=ZeroEmbedding())
    head = Twice("one table").head
    nobody = game.outputs(torch.zeros(1, 1, 8, dtype=torch.bool))
    torch.testing.assert_close(nobody, head.bias.detach().expand(2, 1, 2))


@pytest.mark.parametrize("kind", ["two texts", "two tables for two texts"])
def test_equal_texts_are_told_apart(kind):
    model, ids = Twice(kind), torch.tensor([[4, 5, 6]])
    second = model.first if kind == "two texts" else model.second
    game = Game(model, (ids, ids.clone()), baselines=(ZeroEmbedding(), ZeroEmbedding()), target=0)
    for kept in ([0, 1, 5], [2, 3], []):
        mask = torch.isin(torch.arange(6), torch.tensor(kept, dtype=torch.long))
        ways = model.first(ids) * mask[:3, None], second(ids) * mask[3:, None]
        states = torch.cat([way.cumsum(dim=1).tanh().mean(dim=1) for way in ways], dim=1)
        torch.testing.assert_close(game.outputs(mask[None, None])[0], model.head(states).detach())


@pytest.mark.parametrize("ids", [[[4, 5, 6], [5, 8, 7], [9, 4, 3]], [[5, 5, 5]]])
@pytest.mark.parametrize("copies", [False, True])
def test_time_first_with_as_many_rows_as_tokens(copies, ids):
    class TimeFirst(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.table, self.head = nn.Embedding(10, 4), nn.Linear(4, 2)

        def forward(self, ids):
            turned = ids.t().contiguous() if copies else ids.t()
            return self.head(self.table(turned).cumsum(dim=0).tanh().mean(dim=0))

    model, ids = TimeFirst(), torch.tensor(ids)
    game = Game(model, ids, baselines=ZeroEmbedding(), perturbations_per_eval=3 // len(ids))
    masks = torch.tensor([[True, False, False], [False, True, True], [True, False, True]])
    vectors = model.table(ids)[:, None] * masks[None, :, :, None]
    expected = model.head(vectors.cumsum(dim=2).tanh().mean(dim=2)).detach()
    torch.testing.assert_close(game.outputs(masks[None]), expected)


def test_a_decoder_that_reads_the_tokens_again_is_refused():
    transformers = pytest.importorskip("transformers")
    config = transformers.BartConfig(
        vocab_size=10, d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, encoder_ffn_dim=8,
        decoder_attention_heads=2, decoder_ffn_dim=8, max_position_embeddings=12, num_labels=2, pad_token_id=PAD,
        bos_token_id=CLS, eos_token_id=SEP, decoder_start_token_id=SEP,
    )  # fmt: skip
    model = transformers.BartForSequenceClassification(config).eval()
    with pytest.raises(ValueError, match=r"once, got \['model.encoder.embed_tokens', 'model.decoder.embed_tokens'\]"):
        Game(model, TEXTS, baselines=ZeroEmbedding(), additional_forward_args=ATTENTION)
    assert Game(model, TEXTS, baselines=UNK, additional_forward_args=ATTENTION).n_outputs == 2


class Positions(nn.Embedding):
    """Gets tokens and reads only their shape, as the layer of BART did in Transformers 4."""

    def forward(self, input, start=0):
        return super().forward(torch.arange(start, start + input.shape[1]).expand(input.shape))


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_layer_that_reads_only_the_shape_of_the_tokens_is_no_reader(rows, by_name):
    class Positioned(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.positions, self.table, self.head = Positions(9, 4), nn.Embedding(10, 4), nn.Linear(4, 2)

        def forward(self, ids):
            places = self.positions(input=ids) if by_name else self.positions(ids, 1)
            # The tokens are copied for the table: a layer that gets the very tensor is not thereby the reader.
            return self.decide(places, self.table(ids.clone()))

        def decide(self, places, vectors):
            return self.head((places + vectors).cumsum(dim=1).tanh().mean(dim=1))

    model, ids = Positioned(), TEXTS[:rows]
    game = Game(model, ids, baselines=ZeroEmbedding())
    mask = torch.tensor([True, False] * 4)
    places = model.positions(ids, 0 if by_name else 1)
    expected = model.decide(places, model.table(ids) * mask[:, None]).detach()
    torch.testing.assert_close(game.outputs(mask.expand(rows, 1, 8))[:, 0], expected)


def test_a_bag_of_tokens_has_no_vector_for_each():
    model = nn.Sequential(nn.EmbeddingBag(10, 4), nn.Linear(4, 2))
    with pytest.raises(ValueError, match=r"`layer` must embed every token of shape \(2, 8\) by itself, got \(2, 4\)"):
        Game(model, TEXTS, baselines=ZeroEmbedding("0"))


def test_words_of_byte_level_tokens_are_read_by_their_tokenizer():
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    pieces = tokenizers.Tokenizer(tokenizers.models.BPE())
    pieces.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    pieces.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    pieces.train_from_iterator(
        ["le café noir"] * 3, tokenizers.trainers.BpeTrainer(vocab_size=262, initial_alphabet=alphabet)
    )
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=pieces)
    ids = tokenizer("le café noir", return_tensors="pt")["input_ids"]
    assert ids.shape[1] > 3
    assert Tokens(tokenizer, whole_words=True).names(ids) == [("le", "café", "noir")]
