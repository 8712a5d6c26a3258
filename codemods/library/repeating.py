"""Which functions and methods make the same of the same each time, and do nothing that anybody else sees?"""

from __future__ import annotations

from codemods.dataflow.names import words
from codemods.library.operators import Draws, operator


def _of(package: str, names: str) -> frozenset[str]:
    return frozenset(f"{package}.{name}" for name in names.split())


_PYTHON = frozenset().union(
    _of(
        "builtins",
        """
        abs all any bin bool bytearray bytes chr complex dict divmod enumerate filter float frozenset getattr hasattr
        hex int isinstance issubclass iter len list map max min open ord pow range repr reversed round set slice sorted
        str sum super tuple type zip
        AssertionError AttributeError Exception FileNotFoundError IndexError KeyError NotImplementedError OSError
        RuntimeError TypeError ValueError
        """,
    ),
    _of("base64", "b64decode b64encode decodebytes"),
    _of("collections", "Counter OrderedDict defaultdict deque namedtuple"),
    _of("copy", "copy deepcopy"),
    _of("csv", "DictReader reader"),
    _of("functools", "partial reduce"),
    _of("glob", "glob"),
    _of("gzip", "open"),
    _of("io", "BytesIO StringIO open"),
    _of("itertools", "accumulate chain combinations groupby islice permutations product repeat starmap zip_longest"),
    _of("json", "load loads"),
    _of("linecache", "getline"),
    _of("math", "ceil cos exp fabs floor hypot isnan log log10 log1p log2 pow radians sin sqrt tan tanh"),
    _of("os", "fspath listdir"),
    _of("os.path", "abspath basename dirname exists expanduser getsize isdir isfile join normpath realpath relpath"),
    _of("os.path", "split splitext"),
    _of("pathlib", "Path PurePath"),
    _of("pickle", "load loads"),
    _of("re", "compile escape findall finditer fullmatch match search split sub subn"),
    _of("string", "capwords"),
    _of("struct", "calcsize unpack unpack_from"),
    _of("unicodedata", "category normalize"),
    _of("wave", "open"),
    _of("xml.etree.ElementTree", "fromstring parse"),
    _of("zipfile", "ZipFile"),
    _of("zlib", "decompress"),
)
_ARRAYS = frozenset().union(
    _of(
        "numpy",
        """
        abs absolute add all amax amin any append arange arctan arctan2 argmax argmin argsort argwhere around array
        array_split asanyarray asarray ascontiguousarray atleast_1d atleast_2d atleast_3d bincount bool_ broadcast_to
        ceil clip column_stack concatenate copy cos cross cumsum deg2rad delete diff digitize divide dot dsplit dstack
        einsum empty empty_like equal exp expand_dims expm1 eye finfo flatnonzero flip fliplr flipud float16 float32
        float64 floor frombuffer fromfile fromstring full full_like genfromtxt gradient greater histogram hsplit hstack
        hypot identity iinfo in1d insert int16 int32 int64 int8 interp intersect1d isfinite isin isinf isnan less
        linspace load loadtxt log log10 log1p log2 logical_and logical_not logical_or logical_xor matmul max maximum
        mean median memmap meshgrid min minimum moveaxis multiply nan_to_num newaxis nonzero ones ones_like outer pad
        percentile power prod quantile rad2deg radians ravel repeat reshape resize rint roll rollaxis rot90 round
        searchsorted setdiff1d shape sign sin sort split sqrt square squeeze stack std subtract sum swapaxes take tan
        tanh tensordot tile transpose tril triu uint16 uint32 uint64 uint8 union1d unique var vsplit vstack where zeros
        zeros_like
        """,
    ),
    _of("numpy.fft", "fft fft2 fftn fftshift ifft ifft2 ifftshift irfft rfft rfft2 rfftfreq"),
    _of("numpy.linalg", "det eigh inv norm pinv svd"),
    _of("pandas", "DataFrame Series Timestamp concat isna isnull merge notna notnull read_csv read_excel read_feather"),
    _of("pandas", "read_hdf read_json read_parquet read_pickle read_table to_datetime to_numeric"),
    _of("scipy.io", "loadmat"),
    _of("scipy.io.wavfile", "read"),
    _of("scipy.ndimage", "binary_dilation binary_erosion distance_transform_edt gaussian_filter label rotate zoom"),
    _of("scipy.signal", "butter decimate filtfilt lfilter medfilt resample resample_poly sosfilt spectrogram stft"),
    _of("h5py", "File"),
)
_IMAGES = frozenset().union(
    _of("PIL.Image", "alpha_composite blend composite fromarray frombytes merge new open"),
    _of("PIL.ImageFilter", "BoxBlur GaussianBlur MedianFilter UnsharpMask"),
    _of("PIL.ImageOps", "autocontrast crop equalize exif_transpose expand fit flip grayscale invert mirror pad"),
    _of(
        "cv2",
        """
        Canny GaussianBlur Laplacian Sobel absdiff addWeighted bitwise_and bitwise_not bitwise_or blur boundingRect
        connectedComponents convertScaleAbs copyMakeBorder cvtColor dilate equalizeHist erode fillPoly findContours
        flip getRotationMatrix2D getStructuringElement imdecode imread inRange medianBlur merge morphologyEx
        remap resize rotate split threshold transpose warpAffine warpPerspective
        """,
    ),
    _of("imageio", "imread v2.imread v3.imread"),
    _of("matplotlib.image", "imread"),
    _of("matplotlib.pyplot", "imread"),
    _of("nibabel", "load"),
    _of("pydicom", "dcmread read_file"),
    _of("skimage.color", "gray2rgb lab2rgb rgb2gray rgb2hsv rgb2lab rgba2rgb"),
    _of("skimage.exposure", "equalize_adapthist equalize_hist rescale_intensity"),
    _of("skimage.io", "imread"),
    _of("skimage.transform", "rescale resize rotate"),
    _of("skimage.util", "img_as_float img_as_ubyte"),
    _of("skimage", "img_as_float img_as_ubyte"),
    _of("SimpleITK", "GetArrayFromImage ReadImage"),
    _of("tifffile", "imread"),
    _of("torchvision.datasets.folder", "default_loader pil_loader"),
    _of("torchvision.io", "decode_image decode_jpeg decode_png read_file read_image"),
    _of(
        "torchvision.transforms.functional",
        """
        adjust_brightness adjust_contrast adjust_gamma adjust_hue adjust_saturation adjust_sharpness affine autocontrast
        center_crop convert_image_dtype crop equalize five_crop gaussian_blur hflip invert normalize pad perspective
        pil_to_tensor posterize resize resized_crop rgb_to_grayscale rotate solarize ten_crop to_grayscale to_pil_image
        to_tensor vflip
        """,
    ),
)
_SOUNDS = frozenset().union(
    _of("librosa", "amplitude_to_db load power_to_db resample stft"),
    _of("librosa.core", "load resample"),
    _of("librosa.effects", "preemphasis trim"),
    _of("librosa.feature", "chroma_stft delta melspectrogram mfcc rms spectral_centroid spectral_contrast tonnetz"),
    _of("librosa.feature", "zero_crossing_rate"),
    _of("librosa.util", "fix_length normalize pad_center"),
    _of("soundfile", "read"),
    _of("torchaudio", "load"),
    _of("torchaudio.functional", "amplitude_to_DB resample"),
)
_TEXTS = frozenset().union(
    _of("nltk", "sent_tokenize word_tokenize"),
    _of("nltk.tokenize", "sent_tokenize word_tokenize"),
    _of("tiktoken", "get_encoding"),
)
_TENSORS = frozenset().union(
    _of("torch", "BoolTensor ByteTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor ShortTensor Tensor"),
    _of("torch", "device load"),
    _of("torch.fft", "fft fft2 fftn fftshift ifft ifft2 ifftshift irfft rfft rfft2"),
    _of("torch.linalg", "det inv norm svd vector_norm"),
    _of("torch.nn.utils.rnn", "pad_sequence"),
    _of("torch.utils.data", "default_collate"),
)
_FUNCTIONS = _PYTHON | _ARRAYS | _IMAGES | _SOUNDS | _TEXTS | _TENSORS
_OPERATORS = words("torch torch.nn.functional torch.special")
"""Modules whose functions are the operators of ``operators.py``."""
_OPENING = {"builtins.open": 1, "gzip.open": 1, "h5py.File": 1, "io.open": 1, "wave.open": 1, "zipfile.ZipFile": 1}
"""Functions that write where they are asked to, with the position of the argument that says so."""

_WRITING = frozenset().union(
    _of("cv2", "imwrite"),
    _of("imageio", "imsave imwrite v2.imwrite v3.imwrite"),
    _of("numpy", "save savetxt savez savez_compressed"),
    _of("os", "remove rename replace unlink"),
    _of("scipy.io", "savemat"),
    _of("scipy.io.wavfile", "write"),
    _of("shutil", "copy copyfile copytree move rmtree"),
    _of("skimage.io", "imsave"),
    _of("soundfile", "write"),
    _of("torch", "save"),
    _of("torchaudio", "save"),
    _of("torchvision.io", "write_file write_jpeg write_png"),
    _of("torchvision.utils", "save_image"),
)
_WRITING_METHODS = words("save to_csv to_json to_parquet to_pickle tofile unlink write_bytes write_text")

_METHODS = words(
    """
    capitalize casefold decode encode end endswith find findall finditer format fullmatch group groupdict groups index
    isalnum isalpha isascii isdecimal isdigit islower isnumeric isspace istitle isupper join ljust lower lstrip match
    partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip search span split splitlines
    start startswith strip sub swapcase title translate upper zfill
    add append appendleft clear copy count difference discard elements extend get insert intersection isdisjoint
    issubset items keys most_common pop popleft remove reverse setdefault sort union update values
    close exists getvalue glob is_dir is_file iterdir joinpath open read_bytes read_text relative_to resolve with_name
    with_suffix
    convert crop filter getbands getbbox getchannel getdata getpixel load point quantize resize rotate tobytes transpose
    argmax argmin argsort astype clip cumsum dot fill flatten item max mean min nonzero prod ravel repeat reshape round
    squeeze std sum swapaxes take tolist var view
    agg assign drop dropna fillna groupby head isin iterrows itertuples melt merge notna rename reset_index set_index
    sort_values tail to_dict to_list to_numpy unique
    get_fdata getroot iter iterfind
    """
)
"""Methods of texts, containers, paths, PIL's images, arrays and tables, whatever they belong to."""
_OF_TOKENIZERS = words(
    """
    batch_encode_plus build_inputs_with_special_tokens convert_ids_to_tokens convert_tokens_to_ids decode encode
    encode_plus prepare_for_model tokenize
    """
)
_OF_HANDLES = words("read readframes readline readlines seek tell getnframes getframerate")
"""Methods of open files, which go on from where the last call ended."""
_NOT_FOR_ITEMS = words(
    """
    apply_ backward cuda map_ mps pin_memory record_stream register_hook register_post_accumulate_grad_hook
    requires_grad_ retain_grad share_memory_ to xpu
    """
)
"""Operators that do more than to compute, or do it on a device."""


def repeats(name: str) -> bool:
    """Whether the function or class of that qualified name makes the same of the same, files that stay as they are."""
    module, _, last = name.rpartition(".")
    if name in _FUNCTIONS or name.replace(".v2.functional.", ".functional.") in _FUNCTIONS:
        return True
    return module in _OPERATORS and last not in _NOT_FOR_ITEMS and is_repeating_operator(last)


def is_repeating_operator(name: str) -> bool:
    """Whether a tensor's operator of that name draws nothing, and does no more than to compute."""
    row = operator(name)
    return row is not None and row.draws is Draws.NO and name not in _NOT_FOR_ITEMS


def method_repeats(name: str) -> bool:
    """Whether methods of that name make the same of the same, or change only what they belong to."""
    return name in _METHODS or is_repeating_operator(name)


def goes_on(method: str) -> bool:
    """Whether a method of that name goes on where an open file was left."""
    return method in _OF_HANDLES


def is_tokenizer(name: str) -> bool:
    """Whether what is made by that qualified name is a tokenizer that makes the same of the same text."""
    package, _, rest = name.partition(".")
    return package in {"transformers", "tokenizers"} and "Tokenizer" in rest.partition(".")[0]


def tokenizes(method: str) -> bool:
    """Whether tokenizers have a method of that name, which makes the same of the same text."""
    return method in _OF_TOKENIZERS


def position_of_mode(name: str) -> int | None:
    """Where the function of that qualified name is told whether to write; None of those that only read."""
    return _OPENING.get(name)


def writes_files(name: str) -> bool:
    """Whether the function of that qualified name writes, moves or removes a file that it is given the path of."""
    return name in _WRITING


def method_writes_files(method: str) -> bool:
    """Whether a method of that name does so, with what it belongs to or in a file that it is."""
    return method in _WRITING_METHODS


def functions() -> frozenset[str]:
    """The qualified names that are listed."""
    return _FUNCTIONS
