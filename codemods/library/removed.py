"""What old names of the libraries became: what cannot be called or imported any more, and since when.

All of it was tried with torch 2.15 and torchvision 0.29, and is again by the tests where they are installed.
"""

from __future__ import annotations

from typing import NamedTuple

Version = tuple[int, int]

PYTHON: Version = (0, 0)
"""Instead of torch's version: it depends on Python alone."""
NO_NEXT: Version = (1, 13)
"""Since then the iterator of a loader has no ``next()``."""
NO_ITEM: Version = (1, 0)
"""Since then a loss has no dimensions, and ``backward`` no ``retain_variables``."""
ONE_KERNEL: Version = (1, 11)
"""Since then a Conv1d whose kernel has two sizes does not work as a Conv2d."""
ROWS_AS_COMPARED: Version = (1, 7)
"""Since then a comparison lies in memory as what is compared does, so that not all of its rows are views."""
WHOLE_FILLS: Version = (1, 7)
"""Since then ``torch.full`` makes integers of an integer, which no binary cross entropy takes as targets."""
STATIC: Version = (1, 5)
"""Since then the methods of an autograd function have to be static."""


class Demanded(NamedTuple):
    """An argument that what is called cannot be without any more."""

    since: Version
    """The torch since which."""
    name: str
    position: int
    """Its place among the arguments of the function, from 0; of the method of a tensor it is one less."""
    instead: str
    """What to know."""


class Removed(NamedTuple):
    """Something that is gone."""

    since: Version
    """The torch since which."""
    instead: str
    """What to know."""
    is_importable: bool = False
    """Whether the name is there, and fails where it is called, or is a module now."""


_FUNCTIONS = """
torch 1.8     it is gone from torch
    btrifact btrisolve btriunpack gels gesv potrf potri potrs pstrf trtrs
torch 1.8     the functions of torch.fft have taken its place
    fft ifft irfft rfft
torch.autograd.gradcheck 1.9    it is gone from torch: set x.grad = None
    zero_gradients
torch.utils.serialization 1.0   it is gone from torch, which reads no files of Lua any more
    load_lua
torch 2.0     torch.linalg.eig has taken its place
    eig
torch 2.0     torch.linalg.eigh has taken its place
    symeig
torch 2.0     torch.linalg.lstsq has taken its place
    lstsq
torch 2.0     torch.linalg.solve has taken its place
    solve
torch 2.14    torch.linalg.qr has taken its place
    qr
torch 2.14    torch.linalg.cholesky has taken its place
    cholesky
torch 2.0     torch.linalg.matrix_rank has taken its place
    matrix_rank
torch._utils 2.3    itertools.accumulate has taken its place
    _accumulate
torchvision.models.alexnet 2.0  the weights of a model have it: ResNet18_Weights.DEFAULT.url
    model_urls
torchvision.models.densenet 2.0  the weights of a model have it: ResNet18_Weights.DEFAULT.url
    model_urls
torchvision.models.googlenet 2.0  the weights of a model have it: ResNet18_Weights.DEFAULT.url
    model_urls
torchvision.models.inception 2.0  the weights of a model have it: ResNet18_Weights.DEFAULT.url
    model_urls
torchvision.models.resnet 2.0  the weights of a model have it: ResNet18_Weights.DEFAULT.url
    model_urls
torchvision.models.squeezenet 2.0  the weights of a model have it: ResNet18_Weights.DEFAULT.url
    model_urls
torchvision.models.vgg 2.0  the weights of a model have it: ResNet18_Weights.DEFAULT.url
    model_urls
torchvision.transforms 1.13     it is called Resize now
    Scale
torchvision.transforms 1.13     it is called RandomResizedCrop now
    RandomSizedCrop
torchtext.data 1.11     it is gone since torchtext 0.12
    BPTTIterator BucketIterator Field Iterator LabelField TabularDataset
collections 1.11    it is in collections.abc alone since Python 3.10
    Awaitable Coroutine AsyncIterable AsyncIterator AsyncGenerator Hashable Iterable Iterator Generator Reversible Sized
    Container Callable Collection Set MutableSet Mapping MutableMapping MappingView KeysView ItemsView ValuesView
    Sequence MutableSequence ByteString
time 2.0    time.perf_counter has taken its place in Python 3.8
    clock
skimage.measure 1.11    it is skimage.metrics.structural_similarity since scikit-image 0.18
    compare_ssim
skimage.measure 1.11    it is skimage.metrics.peak_signal_noise_ratio since scikit-image 0.18
    compare_psnr
skimage.measure 1.11    it is skimage.metrics.mean_squared_error since scikit-image 0.18
    compare_mse
numpy 2.9     it is gone since NumPy 1.24: Python's own type of that name is the same
    complex float int object str
scipy.misc 1.11     imageio.v2.imread has taken its place
    imread
scipy.misc 1.11     imageio.v2.imwrite has taken its place
    imsave
scipy.misc 1.11     Image.resize of Pillow has taken its place
    imresize
scipy.misc 1.11     it is gone from scipy
    bytescale fromimage imfilter imrotate imshow toimage
scipy.misc 1.11     it is in scipy.special
    comb factorial factorial2 factorialk logsumexp
tensorflow 1.11     it is tensorflow.compat.v1 that has it since TensorFlow 2
    ConfigProto GPUOptions Session Summary get_default_graph global_variables_initializer placeholder
    reset_default_graph set_random_seed
tensorflow.summary 1.11     it is tensorflow.compat.v1.summary that has it since TensorFlow 2
    FileWriter merge_all
sys 0.0     it is gone since Python 3: sys.maxsize is the largest index
    maxint
os 0.0      it is gone since Python 3: os.getcwd returns text
    getcwdu
string 0.0      it is gone since Python 3: string.ascii_letters and the like have taken its place
    letters lowercase uppercase
string 0.0      it is gone since Python 3: strings have it as a method
    atof atoi join lower maketrans replace split strip upper
itertools 0.0   it is gone since Python 3: the builtin of that name does the same
    ifilter imap izip
itertools 0.0   it is zip_longest since Python 3
    izip_longest
urllib 0.0      it is in urllib.request since Python 3
    urlopen urlretrieve
urllib 0.0      it is in urllib.parse since Python 3
    quote quote_plus unquote unquote_plus urlencode
fractions 1.11  math.gcd has taken its place in Python 3.9
    gcd
"""
"""The torch of what no torch has is the first for Python 3.10: an older one may run where it is there yet.

That of NumPy is the first which came when nobody installed a NumPy before 1.24 with it. Not here is ``numpy.bool``,
which NumPy 2 has again.
"""
_MODULES = """
2.0     torch._six torch._thnn torch.nn._functions torch.nn.parallel.deprecated torch.onnx.symbolic torch.utils.trainer
1.0     torch.legacy torch.utils.ffi
1.5     torch.distributed.deprecated
1.11    torchtext.legacy
1.13    torchvision.models.utils
2.2     torchvision.transforms.functional_tensor
1.11    tensorflow.contrib
0.0     ConfigParser HTMLParser Queue SocketServer StringIO Tkinter __builtin__ anydbm cPickle cStringIO copy_reg
0.0     cookielib httplib urllib2 urlparse xmlrpclib
"""
_ARGUMENTS = """
torchvision.utils 2.0   it is called value_range now
    make_grid.range save_image.range
torchvision.transforms 2.0  it is called interpolation now
    RandomAffine.resample RandomRotation.resample
torchvision.transforms 2.0  it is called fill now
    RandomAffine.fillcolor
torch.optim.lr_scheduler 2.7  get_last_lr() says what it printed
    LambdaLR.verbose MultiplicativeLR.verbose StepLR.verbose MultiStepLR.verbose ConstantLR.verbose LinearLR.verbose
    ExponentialLR.verbose SequentialLR.verbose CosineAnnealingLR.verbose ReduceLROnPlateau.verbose CyclicLR.verbose
    CosineAnnealingWarmRestarts.verbose OneCycleLR.verbose PolynomialLR.verbose
"""
_DEMANDED = {"torch.stft": Demanded((2, 0), "return_complex", 9, "False returns what it did before")}
"""Of real numbers: of complex ones it returns complex ones, whatever is said."""
_ATTRIBUTES_OF_MODULES = {"_backend": Removed((1, 3), "torch.nn.functional has what it led to")}
_ATTRIBUTES_OF_FRAMES = {"ix": Removed((1, 11), "loc takes names and iloc places since pandas 1.0")}
_STILL_THERE = frozenset(
    {"torch.fft"} | {f"torch.{each}" for each in ("eig", "symeig", "lstsq", "solve", "matrix_rank", "qr", "cholesky")}
)
BUILTINS_OF_PYTHON_2 = frozenset(
    {"basestring", "cmp", "execfile", "file", "long", "raw_input", "reduce", "reload", "unichr", "unicode", "xrange"}
)
_SIZED_BY_ONE = "BatchNorm1d BatchNorm2d BatchNorm3d"
_SIZED_BY_TWO = """
    Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Embedding GRU GRUCell LSTM LSTMCell Linear RNN
    RNNCell
"""
COUNTED = {
    "builtins.range": 3,
    **{f"torch.nn.{each}": 1 for each in _SIZED_BY_ONE.split()},
    **{f"torch.nn.{each}": 2 for each in _SIZED_BY_TWO.split()},
}
"""What takes no floats as its first arguments, and how many these are: ``8 / 2`` was an integer in Python 2."""
METHODS_OF_PYTHON_2 = {
    "has_key": "in",
    "iteritems": "items()",
    "iterkeys": "keys()",
    "itervalues": "values()",
}
"""Methods that dictionaries had, each with what has taken its place."""


def removed(name: str) -> Removed | None:
    """What became of the class or function of that qualified name; None where it is still there, as far as is known."""
    return _REMOVED.get(name)


def removed_method(name: str) -> Removed | None:
    """What became of the method of a tensor; None where it is still there, as far as is known."""
    return removed(f"torch.{name}")


def removed_from_modules(attribute: str) -> Removed | None:
    """What became of an attribute that each ``nn.Module`` had; None where it is still there."""
    return _ATTRIBUTES_OF_MODULES.get(attribute)


def removed_from_frames(attribute: str) -> Removed | None:
    """What became of an attribute that each table of pandas had; None where it is still there."""
    return _ATTRIBUTES_OF_FRAMES.get(attribute)


def demanded_argument(name: str) -> Demanded | None:
    """What the function of that qualified name cannot be called without any more, for real numbers."""
    return _DEMANDED.get(name)


def may_be_removed(attribute: str) -> bool:
    """Whether something of that name is gone from one of the packages."""
    return attribute in _LAST_NAMES


def removed_argument(name: str, argument: str) -> Removed | None:
    """What became of an argument of the class or function of that qualified name; None where it is still there."""
    return _REMOVED_ARGUMENTS.get(f"{name}.{argument}")


def removed_arguments() -> frozenset[str]:
    """The arguments that are not taken any more, each behind the qualified name of what took it."""
    return frozenset(_REMOVED_ARGUMENTS)


def removed_names() -> frozenset[str]:
    """The qualified names of all that cannot be called any more."""
    return frozenset(_REMOVED)


def removed_modules() -> dict[str, Version]:
    """The modules that cannot be imported any more, and the torch since which."""
    return dict(_REMOVED_MODULES)


def _version(text: str) -> Version:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def _read(table: str) -> dict[str, Removed]:
    found: dict[str, Removed] = {}
    package, row = "", None
    for line in table.strip().splitlines():
        if not line.startswith(" "):
            package, version, instead = line.split(maxsplit=2)
            row = Removed(_version(version), instead)
        elif row is not None:
            for name in (f"{package}.{each}" for each in line.split()):
                found[name] = row._replace(is_importable=name in _STILL_THERE)
    return found


_REMOVED = _read(_FUNCTIONS)
_LAST_NAMES = frozenset(each.rpartition(".")[2] for each in _REMOVED)
_REMOVED_ARGUMENTS = _read(_ARGUMENTS)
_REMOVED_MODULES = {
    module: _version(version)
    for version, *modules in map(str.split, _MODULES.strip().splitlines())
    for module in modules
}
