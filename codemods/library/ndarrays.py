"""Which functions of NumPy and other libraries make arrays, of which number format, and in whose memory."""

from __future__ import annotations

from codemods.dataflow.names import words

FORMATS = words("float16 float32 float64 int8 int16 int32 int64 uint8 bool complex64 complex128")
ALIASES = {
    "float": "float64",
    "double": "float64",
    "float_": "float64",
    "single": "float32",
    "half": "float16",
    "bool_": "bool",
}
FLOATS = {"zeros": 1, "ones": 1, "empty": 1, "eye": 3, "identity": 1, "linspace": 5, "logspace": 5}
"""Constructors whose result is float64 where no dtype is given, with the position of that argument."""
CONSTRUCTORS = {
    "array": 1,
    "full": 2,
    "arange": 3,
    "concatenate": 4,
    "stack": 4,
    "vstack": 1,
    "hstack": 1,
    "column_stack": 1,
}
"""Functions that make new arrays of whatever they are given, with the position of their dtype where they take one."""
RANDOM_FLOATS = {
    "random.rand": 0,
    "random.randn": 0,
    "random.random": 0,
    "random.random_sample": 0,
    "random.standard_normal": 0,
    "random.normal": 2,
    "random.uniform": 2,
}
"""Functions that draw arrays of float64, with the position of their size; without one they draw a Python number."""
RANDOM_OTHERS = {"random.randint": 2, "random.choice": 1, "random.binomial": 2, "random.poisson": 1}
"""Those that draw numbers of other formats."""
COMPUTE = words(
    """
    exp log log1p log2 log10 expm1 sqrt sin cos tanh abs clip power multiply add subtract divide square sign
    logical_or logical_and logical_not floor ceil maximum minimum cumsum copy zeros_like ones_like empty_like
    """
)
"""Functions that make new arrays of arrays; of a tensor they make a tensor."""
REPEATING = words("repeat tile")
"""Functions that make new arrays of their first argument, in its number format; the others say how often."""
GIVE_FLOATS = words("exp log log1p log2 log10 expm1 sqrt sin cos tanh mean std var")
"""Those whose results are floats, also of integers."""
ORDER = words("argsort argpartition flatnonzero")
"""Functions that make new arrays of indices of arrays, which have an axis: those of a single number, too."""
FROM_FILES = words("load loadtxt genfromtxt fromfile")
"""Functions that read arrays from files, as 64-bit numbers where nothing else is asked for, and ``load``."""
HIERARCHICAL = ("h5py.File",)
"""Files whose parts are read as arrays: ``file["x"][:]``, and ``np.array(file["x"])``."""
READERS = words(
    """
    cv2.imread cv2.imdecode imageio.imread imageio.v2.imread imageio.v3.imread matplotlib.image.imread
    matplotlib.pyplot.imread skimage.io.imread tifffile.imread
    """
)
"""Those of other libraries."""
READERS_OF_PARTS = {
    "librosa.load": (0, "float32"),
    "librosa.core.load": (0, "float32"),
    "scipy.io.wavfile.read": (1, None),
    "soundfile.read": (0, "float64"),
}
"""Those that return it in a tuple, with its position there, and its number format where none is asked for."""
VIEWS = words("asarray ascontiguousarray squeeze expand_dims reshape transpose moveaxis swapaxes ravel")
"""The same memory as the argument where that is possible."""
VIEW_METHODS = words("reshape transpose squeeze ravel swapaxes")
NEED_AXES = words("ravel expand_dims moveaxis swapaxes")
"""Those that give a single number an axis, or fail for one."""
LAID_OUT = words("ravel ascontiguousarray flatten copy repeat")
"""Their results have no gaps, whatever they are given."""
NEW_METHODS = words("copy flatten repeat clip cumsum")
REDUCING = words("sum mean std var min max prod")
"""They hand out new arrays, or numbers, and keep the format of floats."""
METHODS = VIEW_METHODS | NEW_METHODS | REDUCING | {"astype"}
"""Methods whose results are arrays if they are called of one."""
ENVIRONMENT_ARRAYS = {"reset": 1, "step": 4}
"""How many items of what an environment's method returns are arrays: observations, rewards, whether an episode ends."""
CONSTANTS = words("numpy.pi numpy.e numpy.inf math.pi math.e math.inf")
GENERATORS = words("numpy.random.default_rng numpy.random.RandomState")
