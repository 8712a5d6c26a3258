"""Which layers and functions compute on images whose channels lie next to each other (``torch.channels_last``)."""

from __future__ import annotations

CONVOLUTIONS = frozenset({"torch.nn.Conv2d", "torch.nn.ConvTranspose2d"})
FUNCTIONAL_CONVOLUTIONS = frozenset({"torch.nn.functional.conv2d", "torch.nn.functional.conv_transpose2d"})
GROUPS = 6
"""The position of their argument ``groups``."""
THREE_DIMENSIONAL = frozenset(f"torch.nn.{lazy}{name}3d" for lazy in ("", "Lazy") for name in ("Conv", "ConvTranspose"))
"""Layers whose weights have five dimensions, which ``torch.channels_last`` refuses."""

NETWORKS = frozenset(
    f"torchvision.models.{name}"
    for name in (
        *("alexnet", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn"),
        *("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "wide_resnet50_2", "wide_resnet101_2"),
        *("densenet121", "densenet161", "densenet169", "densenet201", "squeezenet1_0", "squeezenet1_1"),
        *("googlenet", "inception_v3"),
    )
)
"""torchvision's networks of plain convolutions, each of which keeps the layout: a test runs some of them."""

_POINTWISE = (
    *("ReLU", "ReLU6", "LeakyReLU", "PReLU", "ELU", "CELU", "SELU", "GELU", "SiLU", "Mish", "Hardswish", "Hardtanh"),
    *("Hardsigmoid", "Sigmoid", "Tanh", "Softplus", "Softsign"),
)
MADE_IN_CODE = frozenset(
    f"torch.nn.{name}"
    for name in (
        *_POINTWISE,
        *("MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d", "AdaptiveMaxPool2d", "Dropout", "Dropout2d", "Identity"),
        *("ZeroPad2d", "ConstantPad2d", "Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d"),
    )
)
"""Layers that keep the layout, and of which a model may make one in each call: ``nn.ReLU()(x)``."""
LAYERS = (
    MADE_IN_CODE
    | frozenset(
        f"torch.nn.{name}"
        for name in (
            *("BatchNorm2d", "SyncBatchNorm", "Sequential", "ModuleList", "ModuleDict"),
            # What is computed once images are vectors.
            *("Flatten", "Linear", "BatchNorm1d", "Embedding", "Softmax", "LogSoftmax"),
            *("Unflatten", "Conv1d"),
        )
    )
    | frozenset({"torch.nn.Parameter"})
)
"""Layers that keep the layout on CUDA, hold others, or come after it has gone with the dimensions of images."""
GOES_BACK = frozenset(
    f"torch.nn.{name}"
    for name in (
        *("GroupNorm", "InstanceNorm2d", "LayerNorm", "LocalResponseNorm", "ReflectionPad2d", "ReplicationPad2d"),
        *("CircularPad2d", "PixelShuffle", "PixelUnshuffle", "ChannelShuffle", "Unfold", "Fold", "Softmax2d"),
        *("FractionalMaxPool2d", "LPPool2d", "RReLU", "MultiheadAttention", "Transformer", "TransformerEncoder"),
        *("TransformerEncoderLayer", "TransformerDecoder", "TransformerDecoderLayer"),
    )
)
"""Layers that lay images out anew on CUDA: each convolution behind them has to do it back."""

MOVING_OPERATORS = frozenset(
    {"permute", "transpose", "movedim", "moveaxis", "swapaxes", "swapdims", "contiguous", "unfold", "fold", "einsum"}
    | {"matmul", "bmm", "baddbmm", "tensordot", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "group_norm"}
    | {"instance_norm", "layer_norm", "local_response_norm", "scaled_dot_product_attention", "roll", "t"}
    | {"grid_sample", "conv3d", "conv_transpose3d"}
)
"""Operators of tensors that lay them out anew, or are given tensors laid out otherwise."""
SHARED = frozenset(f"torch.distributed.{name}" for name in ("all_reduce", "broadcast", "reduce"))
"""Functions that change the tensor that they are given, as it lies, by those of other processes."""
OF_MEMORY = frozenset(
    {"as_strided", "as_strided_", "stride", "storage", "untyped_storage", "data_ptr", "is_contiguous", "set_"}
    | {"resize_", "resize_as_", "storage_offset", "view_as_complex"}
)
"""Methods and functions that show how a tensor lies in memory, or fail where it lies otherwise."""
VIEWS = {"view": "reshape", "view_as": "reshape_as"}
"""Methods that need one layout, and those that do the same in any."""
COPIES = frozenset({"reshape", "reshape_as", "flatten", "ravel"})
"""Operators that give a view of a tensor in the usual layout, and a copy of one in another."""
FAIL_ON_WEIGHTS = frozenset(
    {"torch.nn.utils.parameters_to_vector", "torch.nn.utils.convert_parameters.parameters_to_vector"}
    | {"torch.optim.LBFGS", "torch.nn.init.orthogonal_", "torch.nn.init.orthogonal"}
)
"""What calls ``view`` on weights or on their gradients."""
ONE_PIXEL = frozenset({"AdaptiveAvgPool2d", "AdaptiveMaxPool2d", "adaptive_avg_pool2d", "adaptive_max_pool2d"})
"""Layers and functions that leave one pixel where they are asked for size 1, which any layout may be viewed as."""
KEEPING_METHODS = frozenset(
    {"size", "dim", "numel", "nelement", "to", "cuda", "cpu", "type", "detach", "item", "float", "half", "type_as"}
    | {"requires_grad_", "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "train", "eval"}
    | {"children", "named_children", "modules", "named_modules", "parameters", "named_parameters"}
)
"""Methods of tensors and models that ask for sizes, convert, or make something new."""
MADE_OF_SIZES = frozenset(
    f"torch.{name}" for name in ("zeros", "ones", "rand", "randn", "empty", "Tensor", "FloatTensor")
)
"""What makes a tensor of these sizes."""
KEEPING_FUNCTIONS = (
    MADE_OF_SIZES
    | frozenset(f"torch.{name}" for name in ("full", "randint", "arange", "linspace", "eye", "tensor", "as_tensor"))
    | frozenset(f"torch.{name}_like" for name in ("zeros", "ones", "rand", "randn", "empty", "full", "randint"))
    | frozenset({"torch.Size", "torch.device", "torch.no_grad", "torch.is_grad_enabled", "torch.autocast"})
    | frozenset({"torch.utils.checkpoint.checkpoint", "torch.cuda.amp.autocast", "torch.amp.autocast"})
)
"""Functions that make tensors, or do nothing to them."""
