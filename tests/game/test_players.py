import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bivshap_lightning.game.players import Players, Tokens, make_players


def test_every_element_is_a_player_by_default():
    players = Players.from_mask([torch.zeros(2, 3, 4), torch.zeros(2, 5)])
    assert players.n_players == 17
    assert [ids.tolist() for ids in players.ids] == [[list(range(12))], [list(range(12, 17))]]
    assert players.counts.tolist() == [17, 17]
    assert not players.is_identity
    assert Players.from_mask([torch.zeros(2, 5)]).is_identity


def test_players_may_span_inputs():
    masks = [torch.tensor([[0, 1]]), torch.tensor([[1, 2, 2]])]
    players = Players.from_mask([torch.zeros(4, 2), torch.zeros(4, 3)], masks)
    assert players.n_players == 3
    flags = [torch.tensor([[False, True]]), torch.tensor([[False, False, False]])]
    assert players.any_element(flags).tolist() == [[False, True, False]]


@pytest.mark.parametrize("shape", [(4, 1, 2, 3), (1, 1, 2, 3), (1, 2, 3), (1, 1, 1, 3)])
def test_masks_broadcast_to_their_input(shape):
    mask = torch.arange(3).expand(*shape)
    players = Players.from_mask([torch.zeros(4, 5, 2, 3)], [mask])
    assert players.n_players == 3
    assert players.ids[0].shape == (1, 30)


def test_samples_may_have_different_players():
    mask = torch.tensor([[0, 1, 2], [0, 0, 1], [-1, -1, -1]])
    players = Players.from_mask([torch.zeros(3, 3)], [mask])
    assert players.n_players == 3
    assert players.counts.tolist() == [3, 2, 0]
    assert players.exists.tolist() == [[True] * 3, [True, True, False], [False] * 3]
    assert players.has_fixed


@given(st.lists(st.lists(st.integers(-1, 3), min_size=4, max_size=4), min_size=1, max_size=4))
def test_holes_are_found_exactly_where_they_are(rows):
    mask = torch.tensor(rows)
    has_hole = any({i for i in row if i >= 0} != set(range(max(row) + 1)) for row in rows)
    if has_hole:
        with pytest.raises(ValueError, match="`feature_mask` must use every id"):
            Players.from_mask([torch.zeros(len(rows), 4)], [mask])
    else:
        players = Players.from_mask([torch.zeros(len(rows), 4)], [mask])
        assert players.counts.tolist() == [max(row) + 1 for row in rows]


def test_bad_masks_are_refused():
    x = torch.zeros(2, 3)
    with pytest.raises(TypeError, match=r"`feature_mask` must be an integer tensor of player ids, got torch.float32"):
        Players.from_mask([x], [torch.zeros(1, 3)])
    with pytest.raises(ValueError, match=r"`feature_mask` must broadcast to its input, got \(1, 4\)"):
        Players.from_mask([x], [torch.zeros(1, 4, dtype=torch.long)])
    with pytest.raises(ValueError, match="must have one mask per input, got 2 masks for 1 inputs"):
        Players.from_mask([x], [torch.zeros(1, 3, dtype=torch.long)] * 2)
    with pytest.raises(ValueError, match=r"ids from 0 upwards .* got -2"):
        Players.from_mask([x], [torch.tensor([[-2, 0, 1]])])
    with pytest.raises(ValueError, match="no element with id 1 in sample 1 although id 2 occurs"):
        Players.from_mask([x], [torch.tensor([[0, 1, 2], [0, 0, 2]])])
    with pytest.raises(ValueError, match=r"no element with id 1 although id 2 occurs. Renumber it"):
        Players.from_mask([x], [torch.tensor([[0, 2, 2]])])


def test_a_maker_may_leave_out_the_dimension_of_samples():
    texts, table = torch.tensor([[4, 5, 0], [6, 0, 0], [7, 8, 9]]), torch.rand(3, 3)
    players, _ = make_players((texts, table), (Tokens(pad_id=0), lambda x: torch.arange(x.shape[1])))
    assert players.counts.tolist() == [5, 4, 6]
    assert players.ids[1].tolist() == [[2, 3, 4], [1, 2, 3], [3, 4, 5]]
