"""PyTorch's operators: what each returns, in whose memory, in which format under autocast, and whether it draws.

One table for methods of tensors, functions of ``torch`` and functions of ``torch.nn.functional``, which mean the same
where they have the same name. What is not in it is not known. The tests hold the rows against the installed torch: its
``native_functions.yaml``, its ``autocast_mode.h``, and what the operators return.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

Version = tuple[int, int]


class Result(enum.Enum):
    """What an operator returns."""

    FLOAT = "float"
    """Floating-point numbers, in the format to which those of its operands are promoted."""
    SAME = "same"
    """Numbers of the type of its operands."""
    BOOL = "bool"
    """Truth values in a tensor."""
    INTEGER = "integer"
    """Integers in a tensor: indices, counts."""
    INDEXED = "indexed"
    """A pair: numbers of the type of its operand, and integers."""
    REDUCED = "reduced"
    """As ``INDEXED`` where a dimension is given, else as ``SAME``: ``x.max()``, ``x.max(1)``, ``torch.max(x, y)``."""
    POOLED = "pooled"
    """As ``INDEXED`` where ``return_indices`` is given, else as ``SAME``."""
    COUNTED = "counted"
    """As ``SAME``, followed by integers for each ``return_…`` that is given."""
    SEVERAL = "several"
    """A tuple of tensors of the type of its operands."""
    FRESH = "fresh"
    """A new tensor of its operand's type, whose numbers do not depend on the operand's."""
    DETACHED = "detached"
    """Numbers of the type of its operand, without a graph."""
    CAST = "cast"
    """The numbers of its operand in the type that is asked for, or in the same where only a device is."""
    WIDE = "wide"
    """Floating-point numbers of 32 or 64 bits, whatever the operand's."""
    HALF = "half"
    """Floating-point numbers of 16 bits, whatever the operand's."""
    COMPLEX = "complex"
    """Complex numbers."""
    MADE = "made"
    """A new tensor of Python numbers, of arrays, or of a size: of the type that is asked for, or the default."""
    PYTHON = "python"
    """A number, a text, a list, an array of NumPy, or nothing."""


class Memory(enum.Enum):
    """Where what an operator returns is kept."""

    NEW = "new"
    VIEW = "view"
    """In its operand's memory."""
    EITHER = "either"
    """In its operand's memory wherever that can be."""
    SELF = "self"
    """It is its operand, which has been changed."""
    NONE = "-"
    """It is no tensor."""


class Autocast(enum.Enum):
    """What autocast on CUDA does."""

    LOW = "low"
    """It is computed in 16 bits."""
    HIGH = "high"
    """It is computed in 32 bits, and so returned."""
    WIDEST = "widest"
    """Its operands are converted to the widest format among them."""
    BANNED = "banned"
    """It raises."""
    NONE = "-"
    """Nothing: it is computed in the format of its operands."""


class Draws(enum.Enum):
    """Whether an operator draws random numbers."""

    YES = "yes"
    WITH_DROPOUT = "dropout"
    """Where it is given a dropout that is not 0."""
    NO = "-"


_WITHOUT_GRAPH = frozenset({Result.BOOL, Result.INTEGER, Result.FRESH, Result.DETACHED, Result.MADE, Result.PYTHON})
_WITHOUT_FLOATS = frozenset({Result.BOOL, Result.INTEGER, Result.PYTHON})


class Operator(NamedTuple):
    """What is known of an operator."""

    result: Result
    memory: Memory
    autocast: Autocast
    draws: Draws
    since: Version | None = None
    """The torch since which autocast does so, where that is later than 1.10; before, it does nothing."""

    @property
    def carries_graph(self) -> bool:
        """Whether what it returns, or the first of it, can be differentiated with respect to its operands."""
        return self.result not in _WITHOUT_GRAPH

    @property
    def has_no_floats(self) -> bool:
        """Whether it returns no floating-point numbers in tensors, whatever it is given."""
        return self.result in _WITHOUT_FLOATS

    @property
    def is_wide(self) -> bool:
        """Whether its result has more than 16 bits under autocast, on every torch."""
        return self.result is Result.WIDE or (self.autocast is Autocast.HIGH and self.since is None)

    @property
    def computes_alike(self) -> bool:
        """Whether it returns new tensors, or views, that are the same for the same operands, and writes to none."""
        is_tensor = self.memory in {Memory.NEW, Memory.VIEW, Memory.EITHER}
        return is_tensor and not self.may_draw and self.result not in {Result.MADE, Result.FRESH, Result.PYTHON}

    @property
    def may_draw(self) -> bool:
        """Whether it draws random numbers, or may."""
        return self.draws is not Draws.NO


def operator(name: str) -> Operator | None:
    """The operator of that name, such as ``add`` or ``add_``; None where none is known."""
    found = _OPERATORS.get(name)
    if found is None and name.endswith("_") and not name.endswith("__"):
        base = _OPERATORS.get(name[:-1])
        # What writes into its operand keeps the operand's type: autocast does not convert it.
        found = base and base._replace(result=Result.SAME, memory=Memory.SELF, autocast=Autocast.NONE, since=None)
    return found


def reads_no_numbers(name: str) -> bool:
    """Whether what the tensor's attribute or method of that name yields is free of its graph and of its format.

    Sizes, types and devices, truth values, indices and numbers of Python are; arrays are not, for they keep the format.
    """
    row = _ATTRIBUTES.get(name) or operator(name)
    return row is not None and row.has_no_floats and name != "numpy"


def joins(name: str) -> bool:
    """Whether the function of that qualified name joins a sequence of tensors to a new one."""
    return name in _JOINS


def may_be_view(name: str, arguments: int) -> bool:
    """Whether a function that makes new tensors of several returns a view where it is given so many arguments.

    ``torch.einsum("ij->ji", x)`` is one, and ``torch.cartesian_prod(x)``.
    """
    return arguments < _TO_COMPUTE.get(name, 0)


def operators() -> frozenset[str]:
    """The names of all operators in the table; those that write into their operand are there only if they stand alone.

    ``normal_`` stands alone, for it is not what ``normal`` does; ``add_`` follows from ``add``.
    """
    return frozenset(_OPERATORS)


def attribute(name: str) -> Operator | None:
    """The same for an attribute of tensors, such as ``shape``."""
    return _ATTRIBUTES.get(name)


def attributes() -> frozenset[str]:
    """The attributes of tensors that are known."""
    return frozenset(_ATTRIBUTES)


def function(name: str) -> Operator | None:
    """The operator that a qualified name stands for: ``torch.add``, ``torch.nn.functional.relu``; None where none."""
    package, _, last = name.rpartition(".")
    return operator(last) if package in _PACKAGES else _OTHERS.get(name)


# What has no kernel for bf16 on CUDA before a torch; for fp16 it has one on all of them. From torch's source.
_WITHOUT_BF16 = """
2.1  nn.functional.interpolate nn.functional.upsample nn.functional.upsample_nearest nn.functional.upsample_bilinear
2.1  nn.Upsample nn.UpsamplingNearest2d nn.UpsamplingBilinear2d
2.2  nn.ReplicationPad1d nn.ReplicationPad2d nn.ReplicationPad3d
2.5  nn.MaxUnpool1d nn.MaxUnpool2d nn.MaxUnpool3d frexp
2.5  nn.functional.max_unpool1d nn.functional.max_unpool2d nn.functional.max_unpool3d
"""


def bf16_since(name: str) -> Version | None:
    """The first torch that computes what the qualified name stands for in bf16 on CUDA; None where all are thought to.

    Autocast widens interpolation since torch 2.4, which has no need of such kernels any more.
    """
    return _BF16_SINCE.get(name)


_BF16_SINCE = {
    f"torch.{name}": (int(version.partition(".")[0]), int(version.partition(".")[2]))
    for version, *names in map(str.split, _WITHOUT_BF16.strip().splitlines())
    for name in names
}
_WITHOUT_16_BITS = frozenset({"torch.ctc_loss", "torch.nn.functional.ctc_loss", "torch.nn.CTCLoss"})


def needs_wide_operand(name: str) -> bool:
    """Whether the loss of that qualified name has kernels for 32 bits alone on CUDA, where autocast widens nothing."""
    return name in _WITHOUT_16_BITS


_PACKAGES = frozenset(
    {"torch", "torch.nn.functional", "torch.Tensor", "torch.functional", "torch.special"}
    | {"torch._C._nn", "torch._C._VariableFunctions", "torch.ops.aten"}
)

# The arguments from which on they compute something.
_TO_COMPUTE = {"einsum": 3, "cartesian_prod": 2}

# The columns are those of Operator: result, memory, autocast, draws. A row without them goes on with those above it.
_TABLE = """
# Arithmetic and mathematics, one element at a time.
same     new    -      -    abs absolute add ceil clamp clamp_max clamp_min clip copysign div
    divide floor floor_divide fmax fmin fmod frac heaviside hypot ldexp lerp maximum minimum mul multiply neg negative
    nextafter relu remainder round sgn sign square sub subtract rsub true_divide trunc fix where masked_fill
    nan_to_num bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift gcd lcm
    relu6 threshold hardtanh fill clone
same     new    widest -    addcdiv addcmul
float    new    widest -    atan2 arctan2
float    new    -      -    acosh arccosh asinh arcsinh atan arctan atanh arctanh cos deg2rad digamma erf erfc exp2
    float_power i0 igamma igammac lgamma logaddexp logaddexp2 logit mvlgamma polygamma rad2deg sigmoid sin sinc sqrt
    tanh xlogy celu elu selu gelu glu hardshrink hardsigmoid hardswish leaky_relu logsigmoid mish silu
    softshrink softsign tanhshrink expit log_ndtr ndtr
float    new    low    -    prelu
float    new    high   -    acos arccos asin arcsin cosh erfinv exp expm1 log log10 log1p log2 reciprocal rsqrt sinh tan
    softplus
same     new    high   -    pow
complex  new    -      -    complex polar cfloat cdouble chalf stft
complex  view   -      -    view_as_complex
float    view   -      -    view_as_real
float    new    -      -    angle istft

# Reductions.
float    new    -      -    mean nanmean std var quantile nanquantile logcumsumexp corrcoef cov
same     new    -      -    amax amin nansum diff trace trapezoid trapz cumulative_trapezoid logdet det
same     new    high   -    sum prod cumsum cumprod
float    new    high   -    logsumexp norm dist cdist pdist cosine_similarity renorm frobenius_norm nuclear_norm softmax
    softmin log_softmax normalize pairwise_distance
integer  new    -      -    argmax argmin argsort count_nonzero bincount hash_tensor
reduced  new    -      -    max min median nanmedian
indexed  new    -      -    sort topk kthvalue mode cummax cummin frexp
several  new    -      -    gradient aminmax std_mean var_mean slogdet histogram
detached new    -      -    histc
bool     new    -      -    all any

# Comparisons and questions.
bool     new    -      -    eq ne not_equal gt greater ge greater_equal lt less le less_equal isclose isfinite isinf
    isnan isneginf isposinf isreal isin logical_and logical_not logical_or logical_xor signbit
python   -      -      -    equal allclose is_tensor is_storage is_floating_point is_complex is_conj is_neg is_nonzero
    is_same_size is_set_to is_signed is_contiguous is_pinned is_shared is_inference is_coalesced is_distributed
    item tolist numpy size dim ndimension numel nelement stride storage_offset data_ptr const_data_ptr element_size
    get_device sparse_dim dense_dim storage untyped_storage storage_type dim_order qscheme q_scale q_zero_point
    backward register_hook register_post_accumulate_grad_hook retain_grad record_stream
    broadcast_shapes can_cast result_type promote_types typename
    is_grad_enabled is_inference_mode_enabled is_autocast_enabled get_default_dtype get_autocast_dtype

# Indices and integers.
integer  new    -      -    nonzero nonzero_static argwhere bucketize searchsorted one_hot tril_indices triu_indices
    unravel_index
integer  either -      -    long int short char byte
bool     either -      -    bool
counted  new    -      -    unique unique_consecutive

# Views, and what rearranges elements.
same     view   -      -    view_as expand expand_as permute transpose t swapaxes swapdims movedim moveaxis narrow
    select squeeze unsqueeze diagonal unflatten adjoint as_strided conj real imag resolve_conj resolve_neg ravel
    requires_grad_ broadcast_to slice_inverse share_memory_ as_subclass
same     either -      -    reshape reshape_as flatten contiguous pin_memory coalesce to_dense positive conj_physical
    unfold atleast_1d atleast_2d atleast_3d sum_to_size
several  view   -      -    chunk split split_with_sizes tensor_split unbind dsplit hsplit vsplit unsafe_chunk
    unsafe_split unsafe_split_with_sizes meshgrid broadcast_tensors
same     new    -      -    cat concat concatenate stack hstack vstack dstack column_stack row_stack block_diag
    cartesian_prod combinations flip fliplr flipud rot90 roll tile repeat repeat_interleave gather index_select
    masked_select take take_along_dim tril triu diag diag_embed diagflat kron vander narrow_copy pad
    constant_pad_nd channel_shuffle pixel_shuffle pixel_unshuffle native_channel_shuffle
    index_fill index_reduce diagonal_scatter select_scatter slice_scatter as_strided_scatter masked_scatter
    scatter scatter_reduce index_add index_copy put to_padded_tensor msort fold
same     new    widest -    index_put scatter_add cross
same     self   -      -    set_ resize_ resize_as_ copy_ zero_ fill_diagonal_ apply_ map_
same     view   -      -    squeeze_ unsqueeze_ transpose_ t_ swapaxes_ swapdims_ as_strided_ rename_

# Products.
float    new    low    -    mm bmm mv matmul addmm addmv addbmm baddbmm addr einsum linear chain_matmul
    conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution
    gru_cell rnn_tanh_cell rnn_relu_cell
several  new    low    -    lstm_cell
float    new    low    dropout    scaled_dot_product_attention
float    new    widest -    bilinear dot vdot tensordot grid_sampler grid_sample
float    new    -      -    ger outer inner
float    new    low    -    affine_grid affine_grid_generator
several  new    low    dropout    lstm gru rnn_tanh rnn_relu multi_head_attention_forward
float    new    -      -    inverse cholesky cholesky_inverse cholesky_solve pinverse matrix_exp matrix_power lu_solve
    orgqr ormqr
several  new    -      -    svd qr geqrf triangular_solve lu_unpack
several  new    -      yes  pca_lowrank svd_lowrank lobpcg
indexed  new    -      -    lu

# Layers as functions.
float    new    -      -    avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
    adaptive_avg_pool3d lp_pool1d lp_pool2d lp_pool3d max_unpool1d max_unpool2d max_unpool3d
    batch_norm instance_norm local_response_norm embedding embedding_bag
pooled   new    -      -    max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
pooled   new    -      yes  fractional_max_pool2d fractional_max_pool3d
indexed  new    -      -    max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices
    adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices
indexed  new    -      yes  fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices
float    new    high   -    layer_norm group_norm
float    new    high@2.12  -    rms_norm
float    new    high@2.4  -    interpolate upsample upsample_nearest upsample_bilinear
float    either -      yes  dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout
float    new    -      yes  rrelu
float    new    high   yes  gumbel_softmax
several  new    -      yes  native_dropout

# Losses.
float    new    high   -    cross_entropy nll_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss poisson_nll_loss
    gaussian_nll_loss cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multi_margin_loss
    multilabel_margin_loss multilabel_soft_margin_loss soft_margin_loss triplet_margin_loss
    triplet_margin_with_distance_loss binary_cross_entropy_with_logits
float    new    -      -    ctc_loss
float    new    banned -    binary_cross_entropy

# Formats and devices.
cast     either -      -    to type type_as cpu cuda xpu mps
wide     either -      -    float double
half     either -      -    half bfloat16
cast     view   -      -    view
detached view   -      -    detach detach_

# New tensors.
fresh    new    -      -    zeros_like ones_like empty_like full_like new_zeros new_ones new_empty new_full
    new_empty_strided new_tensor new
cast     either -      -    as_tensor asarray
made     new    -      -    tensor from_numpy frombuffer scalar_tensor zeros ones full empty eye
    arange range linspace logspace empty_strided hann_window hamming_window bartlett_window
    blackman_window kaiser_window
made     view   -      -    sparse_coo_tensor
made     new    -      yes  rand randn randint randperm
fresh    new    -      yes  rand_like randn_like randint_like
same     new    -      yes  normal bernoulli poisson binomial
same     self   -      yes  random_ uniform_ normal_ cauchy_ exponential_ geometric_ log_normal_ bernoulli_
integer  new    -      yes  multinomial
"""


def _parsed(autocast: str) -> tuple[Autocast, Version | None]:
    name, _, since = autocast.partition("@")
    major, _, minor = since.partition(".")
    return Autocast(name), (int(major), int(minor)) if since else None


def _read(table: str) -> dict[str, Operator]:
    found: dict[str, Operator] = {}
    row: Operator | None = None
    for line in table.splitlines():
        cells = line.split()
        if not cells or cells[0] == "#":
            continue
        if not line.startswith(" "):
            result, memory, autocast, draws, *cells = cells
            row = Operator(Result(result), Memory(memory), *_parsed(autocast)[:1], Draws(draws), _parsed(autocast)[1])
        if row is not None:
            found.update(dict.fromkeys(cells, row))
    return found


_OPERATORS = _read(_TABLE)
_JOINS = frozenset(
    f"torch.{name}"
    for name in (
        *("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack", "row_stack"),
        "nn.utils.rnn.pad_sequence",
    )
)
_OTHERS = {
    f"torch.{name}": each
    for name, each in _read(
        """
indexed  new    -      -    nn.utils.rnn.pad_packed_sequence linalg.lu_factor
same     new    -      -    nn.utils.rnn.pad_sequence nn.utils.rnn.unpad_sequence
same     view   -      -    autograd.Variable nn.Parameter
float    new    high   -    linalg.norm linalg.vector_norm linalg.matrix_norm
float    new    low    -    linalg.vecdot linalg.multi_dot
"""
    ).items()
}
_ATTRIBUTES = _read(
    """
same     view   -      -    T mT H mH real imag
detached view   -      -    data
fresh    new    -      -    grad
python   -      -      -    shape dtype device ndim layout itemsize nbytes names name grad_fn requires_grad retains_grad
    output_nr is_leaf is_cuda is_cpu is_mps is_xpu is_meta is_sparse is_sparse_csr is_quantized is_nested is_mkldnn
"""
)
