"""One browser for all tests of a file."""

import pytest

from tests.browser import chromium


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser
