"""What gym's own environments observe."""

from __future__ import annotations

import pytest

from codemods.library.spaces import observes_an_array


@pytest.mark.parametrize("name", ["CartPole-v0", "LunarLanderContinuous-v2", "HumanoidStandup-v4", "CarRacing-v2"])
def test_an_array(name: str) -> None:
    assert observes_an_array(name)


@pytest.mark.parametrize("name", ["Taxi-v3", "Blackjack-v1", "CartPole", "CartPoleBullet-v1", "a:CartPole-v1", 3])
def test_what_may_be_something_else(name: object) -> None:
    assert not observes_an_array(name)
