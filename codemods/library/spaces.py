"""The spaces of gym: how large they are at the most, and which packages have larger ones."""

from __future__ import annotations

import re
from dataclasses import dataclass

from codemods.library.costs import MOST_ACTIONS, MOST_OBSERVED, MOST_STATES

PACKAGES = frozenset({"gym", "gymnasium"})
LARGER = frozenset(
    {
        *("isaacgym", "isaacgymenvs", "isaaclab", "omni", "brax", "envpool", "mani_skill", "mani_skill2", "dm_control"),
        *("procgen", "pettingzoo", "minerl", "minigrid", "gym_minigrid", "smac", "nle", "highway_env", "myosuite"),
    }
)
"""Packages whose environments may show more, or run by the thousand at once."""


@dataclass(frozen=True, slots=True)
class Space:
    """How large the spaces of that kind are, at the most."""

    vector: int
    """The first side of its shape. Of images, too: it is their height or their channels."""
    count: int
    """Its ``n``."""


_OBSERVATIONS = Space(MOST_OBSERVED, MOST_STATES)
_ACTIONS = Space(MOST_ACTIONS, MOST_ACTIONS)
SPACES = {
    "observation_space": _OBSERVATIONS,
    "single_observation_space": _OBSERVATIONS,
    "action_space": _ACTIONS,
    "single_action_space": _ACTIONS,
}
"""By the attributes of environments that hold them."""

_OBSERVE_ARRAYS = re.compile(
    "(CartPole|MountainCar|MountainCarContinuous|Pendulum|Acrobot|LunarLander|LunarLanderContinuous|BipedalWalker"
    "|BipedalWalkerHardcore|CarRacing|HalfCheetah|Hopper|Walker2d|Ant|Humanoid|HumanoidStandup|Swimmer|Reacher|Pusher"
    r"|InvertedPendulum|InvertedDoublePendulum)-v\d+"
)


def observes_an_array(name: object) -> bool:
    """Whether what gym's own environment of that name observes is an array with an axis: no number, no tuple."""
    return isinstance(name, str) and _OBSERVE_ARRAYS.fullmatch(name) is not None
