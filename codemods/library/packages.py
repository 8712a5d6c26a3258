"""What the things of packages around PyTorch are to a training script."""

from __future__ import annotations

import enum
import re

from codemods.dataflow.names import words


class Trait(enum.Enum):
    """What is true of everything in a package."""

    ARRAYS = "arrays"
    """Its functions make arrays of the tensors that they are given; NumPy has no bfloat16."""
    GRAPHLESS = "graphless"
    """What its functions return carries no graph for gradients; nothing in it trains a model of PyTorch."""
    FORGETFUL = "forgetful"
    """Its objects do not keep the arguments that they are made with."""
    CHEAP = "cheap"
    """Its functions are cheap on what is in memory."""
    FILE = "file"
    """What its objects hold is in a file: indexing them reads there."""
    DATA = "data"
    """Data sets are written with it, and nothing in it uses CUDA unless it is told to."""
    KERNELS = "kernels"
    """It has kernels of its own, which TorchDynamo does not compile, and of which many know no 16 bits."""
    GRADIENTS = "gradients"
    """Its functions compute gradients of what they are given, whatever the script trains."""
    SEEDS = "seeds"
    """Its functions that seed, or make computation deterministic, leave cuDNN alone."""
    EXACT = "exact"
    """Its functions solve equations to a tolerance, or invert matrices of kernels."""


_TABLE = """
arrays graphless forgetful cheap data seeds: numpy
arrays graphless forgetful cheap data: pandas
arrays graphless data seeds: sklearn
arrays graphless forgetful data: cv2 PIL scipy
arrays graphless data: imageio librosa matplotlib skimage soundfile
cheap data seeds: torch
forgetful file data: h5py
cheap seeds: builtins random
graphless forgetful cheap: os
graphless forgetful data: yaml
arrays graphless: plotly seaborn
cheap data: einops tqdm
data seeds: transformers
file data: lmdb pyarrow zarr
graphless cheap: logging math pathlib string sys time warnings
graphless data: nltk
graphless forgetful: csv glob json
cheap: abc collections copy dataclasses enum functools itertools operator typing
graphless forgetful data: accimage ftfy inflect num2words regex text_unidecode unidecode
data: albumentations av decord imgaug jieba kornia lxml mat73 monai msgpack nibabel plyfile pycocotools pydicom
    rasterio SimpleITK spacy tifffile tokenizers torchaudio torchvision trimesh
file: datasets netCDF4 sqlite3 tables
forgetful: pickle
gradients: advertorch art captum cleverhans foolbox higher learn2learn pytorch_grad_cam shap torchattacks torchcam
graphless: datetime re
graphless: clearml comet_ml mlflow neptune tensorboard_logger tensorboardX visdom wandb
exact: botorch gpytorch torchdiffeq torchsde
kernels: apex dgl MinkowskiEngine mmcv spconv torch_cluster torch_geometric torch_scatter torch_sparse
    torch_spline_conv
seeds: accelerate gym gymnasium ignite jax lightning pytorch_lightning tensorflow
"""


def has(name: str, trait: Trait) -> bool:
    """Whether the package of the qualified name has the trait."""
    return name.partition(".")[0] in _PACKAGES[trait]


def is_known(name: str) -> bool:
    """Whether anything is known of the package of the qualified name."""
    return any(has(name, each) for each in Trait)


def packages(trait: Trait) -> frozenset[str]:
    """The packages that have the trait."""
    return _PACKAGES[trait]


def _read(table: str) -> dict[Trait, frozenset[str]]:
    found: dict[Trait, set[str]] = {each: set() for each in Trait}
    traits: list[Trait] = []
    for line in table.splitlines():
        before, colon, names = line.partition(":")
        if colon:
            traits = [Trait(each) for each in before.split()]
        for trait in traits:
            found[trait].update((names if colon else before).split())
    return {trait: frozenset(names) for trait, names in found.items()}


_PACKAGES = _read(_TABLE)

_SCHEDULES = (
    *("torch.optim.lr_scheduler.", "timm.scheduler.", "ignite.handlers.param_scheduler.", "pytorch_warmup."),
    *("warmup_scheduler.", "cosine_annealing_warmup.", "torch.optim.swa_utils.SWALR"),
)
_MAKES_SCHEDULE = re.compile(r"(transformers|diffusers)\.(optimization\.)?get_\w*schedule\w*$")
_STEPS_NO_PARAMETERS = (
    *("gym.", "gymnasium.", "pettingzoo.", "envpool.", "procgen.", "retro.", "dm_control.", "ale_py.", "minigrid."),
    *("torch.profiler.", "torch.autograd.profiler.", "torch.cuda.profiler."),
)


def is_scheduler(name: str) -> bool:
    """Whether what the class or function of that qualified name makes schedules learning rates."""
    return name.startswith(_SCHEDULES) or _MAKES_SCHEDULE.match(name) is not None


def steps_no_parameters(name: str) -> bool:
    """Whether what the class or function of that qualified name makes has a ``step`` that updates no parameters.

    Environments, profilers and schedulers have one.
    """
    return is_scheduler(name) or name.startswith(_STEPS_NO_PARAMETERS)


_VECTOR_ENVIRONMENTS = (
    *("gym.vector.", "gymnasium.vector.", "gym.make_vec", "gymnasium.make_vec", "procgen.ProcgenEnv"),
    "stable_baselines3.common.vec_env.",
)


def steps_arrays(name: str) -> bool:
    """Whether what the class or function of that name makes is several environments, whose steps are arrays."""
    return name.startswith(_VECTOR_ENVIRONMENTS)


def wraps_environments(name: str) -> bool:
    """Whether the class of that name wraps environments of any number."""
    return name.startswith(("gym.wrappers.", "gymnasium.wrappers."))


_ENVIRONMENTS = frozenset({"gym.make", "gymnasium.make"})
_WRAPPERS = words(
    """
    AtariPreprocessing ClipAction FlattenObservation GrayScaleObservation Monitor NormalizeObservation NormalizeReward
    RecordEpisodeStatistics RecordVideo RescaleAction ResizeObservation TimeLimit TransformReward
    """
)


def makes_environment(name: str) -> bool:
    """Whether the function of that name makes one environment of gym."""
    return name in _ENVIRONMENTS


def keeps_observations(name: str) -> bool:
    """Whether the wrapper of that name observes arrays where what it wraps does."""
    return wraps_environments(name) and name.rpartition(".")[2] in _WRAPPERS


_ADAPTERS = words("ActionWrapper RewardWrapper")


def adapts_environments(name: str) -> bool:
    """Whether classes derived from that of the name change what is done in an environment, or its rewards, alone."""
    package, _, last = name.rpartition(".")
    return package.partition(".")[0] in {"gym", "gymnasium"} and last in _ADAPTERS
