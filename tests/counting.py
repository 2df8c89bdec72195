"""A module with a variable of its own, as projects have them: models of the tests import it as a whole."""

n_calls = 0


def tick() -> int:
    global n_calls
    n_calls += 1
    return n_calls
